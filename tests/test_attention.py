"""Masks, heads, blocks and the GPT: who sees whom, and that caching changes nothing."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import in_float64, normal
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import (
    ATTENTION,
    AttentionBlock,
    KeyValueCache,
    MultiHead,
    attend,
    causal,
    merge_heads,
    padding,
    split_heads,
)
from tinyattn.backend import asarray, get_device
from tinyattn.models import GPT, GPTConfig, generate
from tinyattn.noise import Noise

B, T, C, H = 2, 5, 8, 2
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Masks and the two equations ---------------------------------------------------------------

CAUSAL = {
    (3, 3, "end"): ["x..", "xx.", "xxx"],
    (3, 3, "start"): ["x..", "xx.", "xxx"],
    (2, 4, "end"): ["xxx.", "xxxx"],
    (2, 4, "start"): ["x...", "xx.."],
    (3, 2, "end"): ["..", "x.", "xx"],
    (3, 2, "start"): ["x.", "xx", "xx"],
}


@pytest.mark.parametrize(("queries", "keys", "align"), CAUSAL)
def test_causal_in_pictures(queries: int, keys: int, align: str, device: str) -> None:
    xp = get_device(device).xp
    allowed = get_device(device).get(causal(queries, keys, align=align, xp=xp))
    picture = ["".join("x" if a else "." for a in row) for row in allowed]
    assert picture == CAUSAL[queries, keys, align]


def test_causal_knows_two_alignments() -> None:
    with pytest.raises(ValueError, match="align must be 'end' or 'start'; got 'middle'"):
        causal(2, 2, align="middle")


def test_padding_hides_what_is_not_there() -> None:
    allowed = padding([2, 0, 3], 3)
    assert allowed.shape == (3, 1, 1, 3)
    assert_array_equal(allowed[:, 0, 0], [[1, 1, 0], [0, 0, 0], [1, 1, 1]])


def test_attend_is_two_equations() -> None:
    q, k, v = normal(3), normal(4, 3), normal(4, 2)
    answer, weights = attend(q, k, v, scale=0.7)
    e = np.exp(0.7 * k @ q)
    assert_allclose(weights.numpy(), e / e.sum(), **CLOSE)
    assert_allclose(answer.numpy(), e / e.sum() @ v, **CLOSE)
    many = ops.attention(q[None], k, v, scale=0.7)
    assert_allclose(answer.numpy(), many.numpy()[0], **CLOSE)


def test_heads_are_slices_of_the_width() -> None:
    x = Tensor(normal(B, T, C))
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, C // H)
    assert_array_equal(heads[:, 1].numpy(), x.numpy()[:, :, C // H :])
    assert_array_equal(merge_heads(heads).numpy(), x.numpy())


# Every block -------------------------------------------------------------------------------

every_block = pytest.mark.parametrize("name", ATTENTION)
both_positions = pytest.mark.parametrize("rotary", [False, True])


def build(name: str = "multihead", dropout: float = 0.0, rotary: bool = False) -> Any:
    """A block with parameters in float64 and large enough for sharp attention."""
    block: Callable[..., AttentionBlock] = ATTENTION[name]
    made = in_float64(block(C, H, rng=rng(), dropout=dropout, rotary=rotary))
    for parameter in made.parameters():
        parameter.data = normal(*parameter.shape)
    return made


@every_block
def test_a_block_keeps_shape_and_precision(name: str, device: str) -> None:
    block = ATTENTION[name](C, H, rng=rng()).to(device)
    y = block(Tensor(normal(B, T, C), dtype="float32", device=device))
    assert (y.shape, y.dtype, y.device) == ((B, T, C), np.float32, device)
    y.backward(asarray(normal(B, T, C), device=device))
    for _, parameter in block.named_parameters():
        assert (parameter.grad.shape, parameter.grad.dtype) == (parameter.shape, np.float32)


@every_block
def test_sequences_of_a_batch_do_not_meet(name: str) -> None:
    block, x = build(name), normal(3, T, C)
    together = block(Tensor(x)).numpy()
    for i in range(3):
        assert_allclose(block(Tensor(x[i : i + 1])).numpy(), together[i : i + 1], **CLOSE)


@every_block
def test_a_split_batch_drops_what_the_whole_would(name: str) -> None:
    block, x = build(name, dropout=0.4), normal(4, T, C)
    whole = block(Tensor(x), noise=Noise(1)).numpy()
    parts = [block(Tensor(x[i : i + 2]), noise=Noise(1, first_row=i)).numpy() for i in (0, 2)]
    assert_allclose(np.concatenate(parts), whole, **CLOSE)
    assert not np.allclose(whole, block(Tensor(x)).numpy())


def influence(block: Any, x: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Whether y_t changes at all when x_s does: (T, T)."""
    changes = np.zeros((T, T), bool)
    for t in range(T):
        leaf = Tensor(x, requires_grad=True)
        block(leaf, allowed=allowed)[:, t].sum().backward()
        changes[t] = np.abs(leaf.grad).sum(axis=(0, 2)) > 0
    return changes


@every_block
@both_positions
def test_what_may_be_seen_is_exactly_what_has_influence(name: str, rotary: bool) -> None:
    block, x = build(name, rotary=rotary), normal(1, T, C)
    assert influence(block, x, None).all()
    if block.causal:
        assert_array_equal(influence(block, x, causal(T, T)), np.tri(T, dtype=bool))


# Multi-head attention ----------------------------------------------------------------------


def by_hand(block: MultiHead, x: np.ndarray, z: np.ndarray, allowed: Any) -> tuple[Any, Any]:
    """The block's answer and weights, head by head, in plain NumPy."""
    p = block.state()
    q, k, v = (a @ p[f"{n}.weight"] + p[f"{n}.bias"]
               for n, a in [("query", x), ("key", z), ("value", z)])  # fmt: skip
    answers, weights = [], []
    for h in range(H):
        D = slice(h * C // H, (h + 1) * C // H)
        scores = q[..., D] @ k[..., D].swapaxes(-1, -2) / math.sqrt(C // H)
        e = np.where(allowed, np.exp(scores), 0.0)
        weights.append(e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300))
        answers.append(weights[-1] @ v[..., D])
    joined = np.concatenate(answers, axis=-1)
    return joined @ p["out.weight"] + p["out.bias"], np.stack(weights, axis=1)


MASKS = [None, np.tri(T, 7, dtype=bool), padding([3, 0], 7)[:, 0]]


@pytest.mark.parametrize("allowed", MASKS, ids=["all", "causal", "padded"])
def test_multihead_is_its_formula(allowed: np.ndarray | None) -> None:
    block, x, z = build(), normal(B, T, C), normal(B, 7, C)
    seen = np.ones((1, 7), bool) if allowed is None else allowed
    mask = None if allowed is None else allowed.reshape(-1, 1, *allowed.shape[-2:])
    y, weights = by_hand(block, x, z, seen)
    assert_allclose(block(Tensor(x), context=Tensor(z), allowed=mask).numpy(), y, **CLOSE)
    ours = block.weights(Tensor(x), context=Tensor(z), allowed=mask).numpy()
    assert_allclose(ours, weights, **CLOSE)
    some = np.broadcast_to(seen.any(axis=-1), (B, T))
    assert_allclose(ours.sum(axis=-1), np.broadcast_to(some[:, None], (B, H, T)), **CLOSE)


def test_training_drops_weights_and_then_answers() -> None:
    block, x, noise = build(dropout=0.4), Tensor(normal(B, T, C)), Noise(3)
    keys_first = block.weights(x).swapaxes(-1, -2)  # as ops.attention draws its bits
    weights = ops.dropout(keys_first, rate=0.4, noise=noise).swapaxes(-1, -2)
    answers = block.out(merge_heads(weights @ split_heads(block.value(x), H)))
    expected = ops.dropout(answers, rate=0.4, noise=noise)
    assert_allclose(block(x, noise=Noise(3)).numpy(), expected.numpy(), **CLOSE)


def test_without_context_a_sequence_looks_at_itself() -> None:
    block, x = build(rotary=True), Tensor(normal(B, T, C))
    assert_array_equal(block(x).numpy(), block(x, context=x).numpy())


@both_positions
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_a_cache_changes_nothing(rotary: bool, sizes: list[int]) -> None:
    """However a text is cut into pieces."""
    block, n = build(rotary=rotary), sum(sizes)
    x = np.random.default_rng(0).standard_normal((B, n, C))
    whole = block(Tensor(x), allowed=causal(n, n)).numpy()
    cache, start = KeyValueCache(capacity=n), 0
    for size in sizes:
        stop = start + size
        with no_grad():
            y = block(Tensor(x[:, start:stop]), allowed=causal(size, stop), cache=cache)
        assert_allclose(y.numpy(), whole[:, start:stop], **CLOSE)
        start = stop


def test_rotary_attention_depends_on_distances_only() -> None:
    """Keys are moved by as much as queries if what came before is masked away."""
    block, x = build(rotary=True), normal(1, T, C)
    shifted = np.concatenate([normal(1, 3, C), x], axis=1)
    later = block(Tensor(shifted), allowed=np.arange(T + 3) >= 3).numpy()[:, 3:]
    assert_allclose(later, block(Tensor(x)).numpy(), rtol=1e-10)


MISTAKES: dict[str, Callable[[Any, Tensor], Any]] = {
    "heads must divide the width; got 3 and 8": lambda block, x: MultiHead(8, 3, rng=rng()),
    r"x must be \(B, T, 8\); got \(5, 8\)": lambda block, x: block(x[0]),
    r"context must be \(B, T, 8\); got \(2, 5, 3\)": lambda block, x: block(x, context=x[..., :3]),
    "it cannot hold a context": lambda block, x: block(x, context=x, cache=KeyValueCache(9)),
    "use it inside no_grad": lambda block, x: block(x, cache=KeyValueCache(9)),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistake_is_told(message: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=message):
        MISTAKES[message](build(), Tensor(normal(B, T, C)))


def test_a_full_cache_says_so() -> None:
    with no_grad(), pytest.raises(ValueError, match="has room for 4 positions; got 5"):
        build()(Tensor(normal(B, T, C)), cache=KeyValueCache(4))


# The GPT -----------------------------------------------------------------------------------

TINY: dict[str, Any] = {"vocabulary": 11, "context": 6, "layers": 2, "heads": 2, "width": 8}
both_kinds = pytest.mark.parametrize("positions", ["learned", "rotary"])


def tiny(positions: str = "learned", device: str = "cpu", **options: Any) -> GPT:
    """A small GPT with weights large enough that its answers differ."""
    model = GPT(GPTConfig(**{**TINY, **options}, positions=positions), device=device)
    draw = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data = draw.standard_normal(parameter.shape) * 0.7
    return model


def ids_of(*shape: int) -> np.ndarray:
    return rng().integers(TINY["vocabulary"], size=shape)


@pytest.mark.parametrize(("positions", "count"), [("learned", 3_323_392), ("rotary", 3_290_624)])
def test_parameter_count_is_that_of_a5(positions: str, count: int) -> None:
    assert GPT(GPTConfig(vocabulary=256, positions=positions)).parameter_count() == count


def test_an_untrained_model_knows_nothing() -> None:
    """Its loss is that of a guess among all symbols, ln V nats."""
    model = GPT(GPTConfig(vocabulary=100, context=32, layers=2, heads=4, width=64))
    ids = rng().integers(100, size=(8, 33))
    loss = ops.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
    assert loss.item() == pytest.approx(math.log(100), abs=0.1)


@both_kinds
def test_every_parameter_learns_on_every_device(positions: str, device: str) -> None:
    model, ids = tiny(positions, device), ids_of(3, 6)
    logits = model(ids, noise=Noise(0))
    ops.cross_entropy(logits, asarray(ids, device=device)).backward()
    assert logits.shape == (3, 6, 11)
    here = tiny(positions)
    ops.cross_entropy(here(ids, noise=Noise(0)), ids).backward()
    for (name, there), parameter in zip(model.named_parameters(), here.parameters(), strict=True):
        gradient = get_device(device).get(there.grad)
        assert (there.name, gradient.any()) == (name, True)
        assert_allclose(gradient, parameter.grad, rtol=1e-3, atol=1e-5)


@both_kinds
def test_a_symbol_has_no_influence_on_what_was_before(positions: str) -> None:
    model, ids = tiny(positions), ids_of(1, 6)
    before = model(ids).numpy()
    for s in range(6):
        changed = ids.copy()
        changed[0, s] = (changed[0, s] + 1) % 11
        same = (model(changed).numpy() == before).all(axis=(0, 2))
        assert_array_equal(same, np.arange(6) < s)


@both_kinds
def test_logits_with_a_cache_are_those_without(positions: str) -> None:
    model, ids = in_float64(tiny(positions)), ids_of(2, 6)
    cache = model.new_cache()
    with no_grad():
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in [(0, 3), (3, 4), (4, 6)]]
    assert_allclose(np.concatenate(parts, axis=1), model(ids).numpy(), **CLOSE)


@both_kinds
@pytest.mark.parametrize("length", [1, 4, 6, 9])
def test_writing_with_a_cache_is_writing_without(positions: str, length: int) -> None:
    """Also when the text outgrows the context of 6, or began longer than it."""
    model, ids = tiny(positions), ids_of(2, length)
    for how in ({"temperature": 0}, {"temperature": 1.0, "top_k": 5, "top_p": 0.9}):
        written = [
            np.stack(list(generate(model, ids, 9, rng=rng(), use_cache=use, **how)))
            for use in (True, False)
        ]
        assert written[0].shape == (9, 2)
        assert_array_equal(written[0], written[1])


def test_a_model_is_made_of_its_seed() -> None:
    states = [GPT(GPTConfig(**TINY), seed=seed).state() for seed in (0, 0, 1)]
    for name, value in states[0].items():
        assert_array_equal(value, states[1][name])
    assert not np.array_equal(states[0]["head.weight"], states[2]["head.weight"])


GPT_MISTAKES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "width must be a whole number above 0; got 0": (ValueError, lambda: tiny(width=0)),
    "heads must divide width 8; got 3": (ValueError, lambda: tiny(heads=3)),
    "dropout must be at least 0": (ValueError, lambda: tiny(dropout=1.0)),
    "positions must be one of .* got 'none'": (ValueError, lambda: tiny("none")),
    "even width per head; got 1": (ValueError, lambda: tiny("rotary", heads=8)),
    "a text of 7 symbols does not fit the context 6": (ValueError, lambda: tiny()(ids_of(1, 7))),
    r"integers \(B, T\); got int64 \(3,\)": (ValueError, lambda: tiny()(ids_of(3))),
    r"ids must lie in 0..10; got 1..11": (IndexError, lambda: tiny()([[1, 11]])),
    "at least 1; got": (ValueError, lambda: next(generate(tiny(), ids_of(1, 0), 1))),
}


@pytest.mark.parametrize("message", GPT_MISTAKES)
def test_a_gpt_tells_what_is_wrong(message: str) -> None:
    error, mistake = GPT_MISTAKES[message]
    with pytest.raises(error, match=message):
        mistake()
