"""The contract of every attention block, for each attention type."""

import inspect
from collections.abc import Callable
from typing import Any

import autograd.numpy
import numpy as np
import pytest
from attention_cases import about, file_of, stray_files
from autograd import make_vjp
from blocks import (
    CLOSE,
    LENGTHS,
    LONGEST,
    C,
    H,
    build,
    can,
    every_way,
    every_way_and_position,
    influence,
    names,
    new,
    numbers,
    pieces,
    put,
    reach,
    ways,
    with_parameters,
    with_positions,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck, no_grad, ops
from tinyattn.attention import (
    ABILITIES,
    ATTENTION,
    KeyValueCache,
    Penalty,
    options_of,
    padding,
)
from tinyattn.backend import asarray, asnumpy
from tinyattn.models import ATTENTION_TYPES
from tinyattn.rng import DropoutRNG

every_block = pytest.mark.parametrize("name", ATTENTION)
every_way_with_padding = pytest.mark.parametrize(("name", "causal"), ways("padding"))

# Its equation, its parameters --------------------------------------------------------------


def test_there_is_a_file_about_each_attention_type_and_no_other() -> None:
    """For a type without tests, the error names what to write (attention_cases.py)."""
    for name in ATTENTION_TYPES:
        assert about(name).__doc__, f"{file_of(name)} has no docstring"
    assert not stray_files()


@every_block
def test_a_block_has_the_parameter_count_of_its_file(name: str) -> None:
    for rotary in (False, *[True] * can(name, "rotary")):
        block = new(name, rotary=rotary)
        assert block.parameter_count() == about(name).parameters(block)


@every_block
def test_an_attention_type_has_the_uses_of_its_file(name: str) -> None:
    uses = [c for c, use in ((True, "causal"), (False, "bidirectional")) if can(name, use)]
    assert uses == about(name).USES


@every_block
def test_an_attention_type_has_its_options_in_its_signature(name: str) -> None:
    """Those of `build`, after the parameters of every block; a call has those of the contract."""
    block, shown = new(name), inspect.signature(ATTENTION[name])
    common = ["width", "heads", "max_length", "rng", "dropout", "rotary"]
    assert [*shown.parameters] == [*common, *options_of(ATTENTION[name])]
    assert [*inspect.signature(block).parameters] == [
        "x", "context", "allowed", "causal", "dropout_rng", "cache", "hooks"
    ]  # fmt: skip
    option = next(iter(options_of(ATTENTION[name])), "dropout")
    with pytest.raises(TypeError, match=f"has no option '{option}t'; did you mean '{option}'"):
        new(name, **{f"{option}t": 1})


@pytest.mark.parametrize("T", LENGTHS)
@every_way_and_position
def test_a_block_is_its_formula(name: str, causal: bool, rotary: bool, T: int, device: str) -> None:
    block, x = build(name, device, rotary=rotary), numbers(2, T, C)
    expected = about(name).formula(np, block.state(), block, x, causal, None)
    assert_allclose(block(put(x, device), causal=causal).numpy(), expected, **CLOSE)


@pytest.mark.parametrize("T", [3, 6, 13])
@pytest.mark.parametrize(("name", "causal", "rotary"), with_positions("padding"))
def test_a_block_is_its_formula_also_with_padding(
    name: str, causal: bool, rotary: bool, T: int, device: str
) -> None:
    block = build(name, device, rotary=rotary)
    x, padded = numbers(3, T, C), padding([T, T // 2, 0], T)
    expected = about(name).formula(np, block.state(), block, x, causal, padded)
    y = block(put(x, device), allowed=put(padded, device), causal=causal)
    assert_allclose(y.numpy(), expected, **CLOSE)


@every_way_and_position
def test_autograd_agrees_on_the_gradients(
    name: str, causal: bool, rotary: bool, device: str
) -> None:
    """For x and every parameter, for a random gradient of the output; some keys are hidden."""
    T = 6
    block, x, u = build(name, device, rotary=rotary), numbers(2, T, C), numbers(2, T, C, seed=1)
    padded = padding([T, 4], T) if can(name, "padding") else None
    paths = list(block.state())

    def formula(x: Any, *parameters: Any) -> Any:
        state = dict(zip(paths, parameters, strict=True))
        return about(name).formula(autograd.numpy, state, block, x, causal, padded)

    arrays = [x, *block.state().values()]
    theirs = make_vjp(formula, tuple(range(len(arrays))))(*arrays)[0](u)
    leaf = Tensor(x, requires_grad=True, device=device)
    block(leaf, allowed=put(padded, device), causal=causal).backward(u)
    assert_allclose(asnumpy(leaf.grad), theirs[0], rtol=1e-10, atol=1e-12)
    for (path, parameter), expected in zip(block.named_parameters(), theirs[1:], strict=True):
        got = asnumpy(parameter.grad)
        assert_allclose(got, expected, rtol=1e-10, atol=1e-12, err_msg=path)


@every_way_and_position
def test_gradients_are_those_of_small_changes(
    name: str, causal: bool, rotary: bool, device: str
) -> None:
    block, x = build(name, device, rotary=rotary), put(numbers(2, 6, C), device)
    run, parameters = with_parameters(block, causal=causal)
    assert gradcheck(run, x, *parameters, directions=1)
    if can(name, "padding"):
        padded = put(padding([4, 0], 6), device)
        run, parameters = with_parameters(block, causal=causal, allowed=padded)
        assert gradcheck(run, x, *parameters, directions=1)


# Influence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("T", LENGTHS)
@every_way_and_position
def test_exactly_the_allowed_positions_have_influence(
    name: str, causal: bool, rotary: bool, T: int, device: str
) -> None:
    """By value: one input changes much. By gradient: of one output."""
    block, x = build(name, device, rotary=rotary), numbers(T, C)

    def run(x: Tensor) -> Tensor:
        return block(x, causal=causal)

    expected = about(name).attends(block, T, causal)
    assert_array_equal(influence(run, x, device), expected)
    assert_array_equal(reach(run, x, device), expected)


with_a_cache = pytest.mark.parametrize(
    ("name", "causal", "rotary"), [way for way in with_positions("cache") if way.values[1]]
)


@pytest.mark.parametrize("T", [1, 6, 14])
@with_a_cache
def test_a_cache_adds_no_influence(
    name: str, causal: bool, rotary: bool, T: int, device: str
) -> None:
    """The same lower triangle if a sequence is continued with a cache."""
    block = build(name, device, rotary=rotary)

    def run(x: Tensor) -> Tensor:
        cache = KeyValueCache(T)
        parts = [
            block(x[:, start:stop], causal=causal, cache=cache)
            for start, stop in pieces([min(2, T)] + [1] * (T - 2))
        ]
        return ops.concatenate(parts, axis=1)

    assert_array_equal(influence(run, numbers(T, C), device), np.tri(T, dtype=bool))


@pytest.mark.parametrize(
    ("name", "causal", "rotary"), [way for way in with_positions("causal") if way.values[1]]
)
def test_outputs_stay_when_a_sequence_grows(
    name: str, causal: bool, rotary: bool, device: str
) -> None:
    """Also the dropout mask: a batch that is cut to its longest sequence gives the same outputs."""
    block, x = build(name, device, rotary=rotary, dropout=0.3), numbers(2, LONGEST, C)
    for dropout_rng in (lambda: None, lambda: DropoutRNG(1)):
        whole = block(put(x, device), causal=causal, dropout_rng=dropout_rng()).numpy()
        for T in range(1, LONGEST):
            start = block(put(x[:, :T], device), causal=causal, dropout_rng=dropout_rng()).numpy()
            assert_allclose(start, whole[:, :T], **CLOSE)


@with_a_cache
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_a_cache_changes_nothing(
    name: str, causal: bool, rotary: bool, sizes: list[int], device: str
) -> None:
    """However a sequence is cut into pieces."""
    block, n = build(name, device, rotary=rotary), sum(sizes)
    x = numbers(2, n, C)
    whole = block(put(x, device), causal=causal).numpy()
    cache = KeyValueCache(capacity=n)
    for start, stop in pieces(sizes):
        with no_grad():
            y = block(put(x[:, start:stop], device), causal=causal, cache=cache)
        assert_allclose(y.numpy(), whole[:, start:stop], **CLOSE)


def _shifted(rotary: Any, shift: int) -> Callable[..., Tensor]:
    """The same rotations, with all positions counted from another start."""
    return lambda x, start=0, step=1: rotary(x, start + shift, step)


@pytest.mark.parametrize(("name", "causal"), ways("rotary"))
def test_rotary_scores_depend_on_distances_only(name: str, causal: bool, device: str) -> None:
    block, x = build(name, device, rotary=True), put(numbers(2, 14, C), device)
    here, plain = block(x, causal=causal).numpy(), build(name, device)(x, causal=causal).numpy()
    turn = block.rotary
    for shift in (1, 4, 37):
        block.rotary = _shifted(turn, shift)
        assert_allclose(block(x, causal=causal).numpy(), here, rtol=1e-10, atol=1e-10)
    assert np.abs(here - plain).max() > 0.01  # and they do depend on distances


# Weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("T", LENGTHS)
@every_way
def test_weights_are_those_of_the_output(name: str, causal: bool, T: int, device: str) -> None:
    described, block, x = about(name), build(name, device), put(numbers(3, T, C), device)
    padded = padding([T, T // 2, 0], T) if can(name, "padding") else None
    for allowed in (None, padded):
        call = {"allowed": put(allowed, device), "causal": causal}
        weights = block.weights(x, **call).numpy()
        assert weights.shape[:3] == (3, H, T)
        assert (weights >= 0).all()
        some = np.ones((3, 1, T))
        if allowed is not None and not described.ALWAYS_THERE:
            some = (described.attends(block, T, causal) & allowed).any(axis=-1)
        assert_allclose(weights.sum(axis=-1), np.broadcast_to(some, (3, H, T)), **CLOSE)
        values = described.values(block.state(), block, x.numpy(), allowed)
        answer = (weights @ values).swapaxes(1, 2).reshape(3, T, C)
        y = answer @ block.out.weight.numpy() + block.out.bias.numpy()
        assert_allclose(block(x, **call).numpy(), y, **CLOSE)
        if can(name, "near"):  # its weights are on positions
            seen = described.attends(block, T, causal) & (True if allowed is None else allowed)
            assert_array_equal(weights > 0, np.broadcast_to(seen, weights.shape))


@every_way_with_padding
def test_the_output_without_allowed_keys_is_the_bias(name: str, causal: bool, device: str) -> None:
    """Heads without allowed keys give zeros, and gradients of exactly zero."""
    block, T = build(name, device), 6
    x, g = Tensor(numbers(2, T, C), requires_grad=True, device=device), numbers(2, T, C, seed=1)
    y = block(x, allowed=put(padding([T, 0], T), device), causal=causal)
    assert_array_equal(y.numpy()[1], np.broadcast_to(block.out.bias.numpy(), (T, C)))
    y.backward(g)
    assert not asnumpy(x.grad)[1].any()
    both = {path: asnumpy(parameter.grad) for path, parameter in block.named_parameters()}
    block.zero_grad()
    block(x[:1], causal=causal).backward(g[:1])  # the other sequence alone
    for path, parameter in block.named_parameters():
        rest = g[1].sum(axis=0) if path == "out.bias" else 0
        assert_allclose(both[path], asnumpy(parameter.grad) + rest, **CLOSE)


@every_way_with_padding
def test_padding_changes_nothing(name: str, causal: bool, device: str) -> None:
    """Whatever the values at the hidden positions behind the sequence are."""
    block, x = build(name, device, **about(name).ALONE), numbers(1, 11, C)
    alone = block(put(x[:, :6], device), causal=causal).numpy()
    filled = block(put(x, device), allowed=put(padding([6], 11), device), causal=causal).numpy()
    assert_allclose(filled[:, :6], alone, **CLOSE)


@pytest.mark.parametrize("name", names("bidirectional"))
def test_a_mask_may_broadcast(name: str, device: str) -> None:
    """A mask of any shape that is the same for every query."""
    block, x = build(name, device), put(numbers(2, 6, C), device)
    y, silent = block(x).numpy(), np.broadcast_to(block.out.bias.numpy(), (2, 6, C))
    for shape in [(), (6,), (1, 1), (1, 6), (1, 1, 6), (2, 1, 1, 6), (1, H, 1, 6)]:
        nothing, everything = (put(np.full(shape, bit), device) for bit in (False, True))
        assert_array_equal(block(x, allowed=nothing).numpy(), silent)
        assert_allclose(block(x, allowed=everything).numpy(), y, **CLOSE)


def test_each_head_may_have_its_own_mask(device: str) -> None:
    """Hidden from one head only: the output of the other head is as before."""
    allowed = np.ones((1, H, 1, 6), bool)
    allowed[0, 0, 0, 2:] = False
    for name in names("bidirectional"):
        block, x = build(name, device), put(numbers(1, 6, C), device)
        block.out.weight.data = np.eye(C)
        whole, some = block(x).numpy(), block(x, allowed=put(allowed, device)).numpy()
        assert_allclose(some[..., C // H :], whole[..., C // H :], **CLOSE)
        assert np.abs(some - whole)[..., : C // H].min() > 0


# Batches, devices, dtypes ------------------------------------------------------------------


@every_way
def test_a_block_keeps_shape_and_dtype_on_every_device(
    name: str, causal: bool, device: str
) -> None:
    for T in (3, 11):
        block, x, g = new(name), numbers(2, T, C), numbers(2, T, C, seed=1)
        calls: list[dict[str, Any]] = [{}]
        if can(name, "padding"):
            calls.append({"allowed": padding([T, 2], T)})
        for call in calls:
            runs = []
            for place in ("cpu", device):
                block.to(place).zero_grad()
                there = {key: asarray(value, device=place) for key, value in call.items()}
                leaf = Tensor(x, dtype="float32", device=place, requires_grad=True)
                y = block(leaf, **there, causal=causal, dropout_rng=DropoutRNG(1))
                assert (y.shape, y.dtype, y.device) == ((2, T, C), np.float32, place)
                y.backward(asarray(g.astype(np.float32), device=place))
                weights = block.weights(leaf, **there, causal=causal)
                assert (weights.dtype, weights.device) == (np.float32, place)
                gradients = [leaf.grad, *(parameter.grad for parameter in block.parameters())]
                assert {a.dtype for a in gradients} == {np.dtype("float32")}
                runs.append([y.numpy(), weights.numpy(), *map(asnumpy, gradients)])
            for here, elsewhere in zip(*runs, strict=True):
                assert_allclose(here, elsewhere, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", names("cache"))
def test_a_cache_on_every_device(name: str, device: str) -> None:
    block, x = new(name).to(device), numbers(2, 5, C)
    cache = KeyValueCache(5)
    with no_grad():
        whole = block(Tensor(x, dtype="float32", device=device), causal=True).numpy()
        parts = [
            block(Tensor(x[:, a:b], dtype="float32", device=device), causal=True, cache=cache)
            for a, b in pieces([3, 1, 1])
        ]
    assert all(part.device == device and part.dtype == np.float32 for part in parts)
    got = np.concatenate([part.numpy() for part in parts], axis=1)
    assert_allclose(got, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("T", [3, 11])
@every_way
def test_sequences_of_a_batch_are_independent(name: str, causal: bool, T: int, device: str) -> None:
    block, x = build(name, device), numbers(3, T, C)
    together = block(put(x, device), causal=causal).numpy()
    for i in range(3):
        alone = block(put(x[i : i + 1], device), causal=causal).numpy()
        assert_allclose(alone, together[i : i + 1], **CLOSE)


@pytest.mark.parametrize("T", [3, 11])
@every_way
def test_a_split_batch_has_the_dropout_masks_of_the_whole(
    name: str, causal: bool, T: int, device: str
) -> None:
    block, x = build(name, device, dropout=0.4), numbers(4, T, C)
    whole = block(put(x, device), causal=causal, dropout_rng=DropoutRNG(1)).numpy()
    parts = [
        block(put(x[a:b], device), causal=causal, dropout_rng=DropoutRNG(1, first_row=a)).numpy()
        for a, b in pieces([1, 3])
    ]
    assert_allclose(np.concatenate(parts), whole, **CLOSE)
    assert (whole == 0).any()  # of the outputs
    kept = block(put(x, device), causal=causal).numpy() / 0.6
    assert np.abs(whole - kept)[whole != 0].min() > 0  # and of the weights


# What it cannot do -------------------------------------------------------------------------

LONGER = LONGEST + 5


def after_three(block: Any, x: Tensor, causal: bool) -> Tensor:
    """A call that continues a sequence."""
    cache = KeyValueCache(LONGER)
    with no_grad():
        block(x[:, :3], causal=causal, cache=cache)
        return block(x[:, 3:], causal=causal, cache=cache)


ASK: dict[str, Callable[[str, Any, Tensor, bool], Tensor]] = {
    "causal": lambda name, block, x, causal: block(x, causal=True),
    "bidirectional": lambda name, block, x, causal: block(x),
    "context": lambda name, block, x, causal: block(
        x, context=put(numbers(2, 9, C), x.device), causal=causal
    ),
    "padding": lambda name, block, x, causal: block(
        x, allowed=put(padding([3, 4], 6), x.device), causal=causal
    ),
    "mask": lambda name, block, x, causal: block(
        x, allowed=put(np.eye(6, dtype=bool), x.device), causal=causal
    ),
    "cache": lambda name, block, x, causal: after_three(block, x, causal),
    "rotary": lambda name, block, x, causal: build(name, x.device, rotary=True)(x, causal=causal),
    "any length": lambda name, block, x, causal: block(
        put(numbers(2, LONGER, C), x.device), causal=causal
    ),
}
"""A call that needs the ability; for penalties it is not a call of the block alone."""


def penalised(block: Any, x: Tensor, causal: bool, penalty: str) -> Tensor:
    """The penalty of a model with such a layer."""
    asked = Penalty(**{penalty: 1.0})
    asked.check("this one", block.cannot)
    counts = put(np.ones((2, 6), bool), x.device)
    return asked([block.weights(x, causal=causal)], counts, 12)


@pytest.mark.parametrize("ability", ABILITIES)
@every_way
def test_a_block_supports_a_call_or_gives_the_reason(
    name: str, causal: bool, ability: str, device: str
) -> None:
    block, x = build(name, device), put(numbers(2, 6, C), device)
    assert ABILITIES.keys() == ASK.keys() | {"focus", "near"}

    def ask() -> Tensor:
        if ability in ("focus", "near"):
            return penalised(block, x, causal, ability)
        return ASK[ability](name, block, x, causal)

    if ability in block.cannot:
        with pytest.raises(ValueError) as caught:
            ask()
        assert block.cannot[ability] in str(caught.value)
        return
    y, plain = ask().numpy(), block(x, causal=causal).numpy()
    assert np.isfinite(y).all()
    if ability in ("context", "padding", "mask", "rotary"):  # it is not ignored
        assert np.abs(y - plain).max() > 1e-3


@every_block
def test_the_description_of_a_block_is_complete(name: str) -> None:
    made = ATTENTION[name]
    assert made.cannot.keys() <= ABILITIES.keys()
    assert all(reason and not reason.endswith(".") for reason in made.cannot.values())
    assert can(name, "causal") or can(name, "bidirectional")
    letters = {"T", *new(name).sizes()}
    for formula in (made.multiply_adds, made.kept_elements):
        assert set(filter(str.isalpha, formula)) <= letters
    assert all(isinstance(default, int) for default in options_of(made).values())


@every_block
@pytest.mark.parametrize(
    ("message", "mistake"),
    [
        ("heads must divide the width; got 3 and 8", lambda name, block, x: ATTENTION[name](
            C, 3, max_length=6, rng=np.random.default_rng(0))),
        ("max_length must be at least 1; got 0", lambda name, block, x: new(name, max_length=0)),
        ("rate must be at least 0", lambda name, block, x: new(name, dropout=1.0)),
        (r"x must be \(B, T, 8\); got \(5, 8\)", lambda name, block, x: block(x[0])),
        (r"context must be \(B, T, 8\); got \(2, 5, 3\)",
         lambda name, block, x: block(x, context=x[..., :3])),
        ("context must have batch size 2; got 1", lambda name, block, x: block(x, context=x[:1])),
        ("a cache is for positions of x itself",
         lambda name, block, x: block(x, context=x, cache=KeyValueCache(9))),
        (r"use it inside no_grad\(\)", lambda name, block, x: block(x, cache=KeyValueCache(9))),
    ],
)  # fmt: skip
def test_a_mistake_raises_an_error(name: str, message: str, mistake: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, RuntimeError), match=message):
        mistake(name, new(name), Tensor(numbers(2, 5, C), dtype="float32"))


@pytest.mark.parametrize("name", names("cache"))
def test_a_full_cache_raises_an_error(name: str) -> None:
    with no_grad(), pytest.raises(ValueError, match="has room for 4 positions; got 5"):
        build(name)(Tensor(numbers(2, 5, C)), causal=True, cache=KeyValueCache(4))
