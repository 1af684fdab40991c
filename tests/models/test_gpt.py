"""The GPT with every attention type: sizes, influence, and that a cache changes nothing."""

import importlib
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attention_cases import about
from blocks import CLOSE, after
from cases import in_float64
from numpy.testing import assert_allclose, assert_array_equal
from tiny import CAUSAL, CONTEXT, TINY, TYPES, every_type, ids_of, tiny

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import ARRANGEMENTS
from tinyattn.backend import asarray, get_device
from tinyattn.models import GPT, GPTConfig, continuations, generate
from tinyattn.nn import weight_hooks
from tinyattn.rng import DropoutRNG

# Sizes -------------------------------------------------------------------------------------

A5_SIZES = {
    ("multihead", "learned"): 3_323_392,
    ("multihead", "rotary"): 3_290_624,
    ("synthesizer,length=127", "learned"): 3_076_988,
    ("synthesizer", "learned"): 3_077_120,
    ("perceiver", "learned"): 3_339_776,
}


@pytest.mark.parametrize(("attention", "positions"), A5_SIZES)
def test_parameter_count_is_that_of_a5(attention: str, positions: str) -> None:
    config = GPTConfig(vocabulary=256, attention=attention, positions=positions)
    assert GPT(config).parameter_count() == A5_SIZES[attention, positions]


def test_the_sizes_of_the_others_are_those_of_their_equations() -> None:
    """Compared with multi-head attention, in a layer of width 8 with two heads."""
    dense = tiny().parameter_count()
    assert tiny("perceiver").parameter_count() == dense + 3 * TINY["width"]
    for name in CAUSAL:
        if name not in ARRANGEMENTS:
            model = tiny(name)
            blocks = [layer.attention for layer in model.layers]
            more = [about(name).parameters(b) - about("multihead").parameters(b) for b in blocks]
            assert model.parameter_count() == dense + sum(more), name


@pytest.mark.parametrize("name", CAUSAL)
def test_an_untrained_model_guesses(name: str) -> None:
    """Its loss is that of a guess among all tokens, ln V nats."""
    config = GPTConfig(vocabulary=100, context=32, layers=2, heads=4, width=64, attention=name)
    ids = np.random.default_rng(0).integers(100, size=(8, 33))
    loss = ops.cross_entropy(GPT(config)(ids[:, :-1]), ids[:, 1:])
    assert loss.item() == pytest.approx(math.log(100), abs=0.1)


def test_the_seed_determines_a_model() -> None:
    states = [GPT(GPTConfig(**TINY), seed=seed).state() for seed in (0, 0, 1)]
    for name, value in states[0].items():
        assert_array_equal(value, states[1][name])
    assert not np.array_equal(states[0]["head.weight"], states[2]["head.weight"])


# Learning ----------------------------------------------------------------------------------


@every_type
def test_every_parameter_gets_a_gradient_on_every_device(
    name: str, positions: str, device: str
) -> None:
    ids = ids_of(3, CONTEXT)
    runs = []
    for place in ("cpu", device):
        model = tiny(name, positions, device=place)
        weights: list[Tensor] = []
        hooks = weight_hooks(TINY["layers"], weights)
        logits = model(ids, dropout_rng=DropoutRNG(0), hooks=hooks)
        ops.cross_entropy(logits, asarray(ids, device=place)).backward()
        assert (logits.shape, len(weights)) == ((3, CONTEXT, 11), TINY["layers"])
        named = [*model.named_parameters()]
        get = get_device(place).get
        runs.append({path: get(parameter.grad) for path, parameter in named})
        assert [parameter.name for _, parameter in named] == [path for path, _ in named]
    for path, gradient in runs[0].items():
        assert gradient.any(), path
        assert_allclose(runs[1][path], gradient, rtol=1e-3, atol=2e-5, err_msg=path)


# Influence ---------------------------------------------------------------------------------


def changes(model: GPT, ids: np.ndarray) -> np.ndarray:
    """Which outputs (down) change at all when a token (across) changes."""
    columns = []
    with no_grad():
        before = model(ids).numpy()
        for s in range(ids.shape[1]):
            changed = ids.copy()
            changed[0, s] = (changed[0, s] + 1) % 11
            columns.append((model(changed).numpy() != before).any(axis=(0, 2)))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("T", [1, 3, 6, 12])
@every_type
def test_a_token_has_no_influence_on_earlier_outputs(
    name: str, positions: str, T: int, device: str
) -> None:
    model = in_float64(tiny(name, positions, device=device))
    matrix = changes(model, ids_of(1, T))
    assert not np.triu(matrix, 1).any()
    if name in ARRANGEMENTS:
        seen = about(name).attends(model, T, True)
    else:
        seen = after(TINY["layers"], about(name).attends(model.layers[0].attention, T, True))
    assert_array_equal(matrix, seen)


@every_type
def test_logits_do_not_depend_on_later_tokens(name: str, positions: str, device: str) -> None:
    model, ids = in_float64(tiny(name, positions, device=device)), ids_of(2, CONTEXT)
    whole = model(ids).numpy()
    for T in range(1, CONTEXT):
        assert_allclose(model(ids[:, :T]).numpy(), whole[:, :T], rtol=1e-10, atol=1e-10)


# Generation --------------------------------------------------------------------------------


@every_type
def test_logits_with_a_cache_are_those_without(name: str, positions: str, device: str) -> None:
    model, ids = in_float64(tiny(name, positions, device=device)), ids_of(2, 6)
    cache, cuts = model.new_cache(), [(0, 3), (3, 4), (4, 6)]
    if "cache" in model.config.cannot:
        with no_grad(), pytest.raises(ValueError, match=model.config.cannot["cache"]):
            model(ids, cache=cache)
        return
    with no_grad():
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in cuts]
    assert_allclose(np.concatenate(parts, axis=1), model(ids).numpy(), **CLOSE)


SHORTER = ("synthesizer,length=7", "learned")  # than the context, as in A5


@pytest.mark.parametrize(("name", "positions"), [*TYPES, SHORTER])
@pytest.mark.parametrize("length", [1, 12, 15])
def test_generation_with_a_cache_equals_generation_without(
    name: str, positions: str, length: int, device: str
) -> None:
    """Also if the sequence becomes longer than the context, or if the prompt is longer."""
    model, ids = tiny(name, positions, device=device), ids_of(2, length)
    for how in ({"temperature": 0}, {"temperature": 1.0, "top_k": 5, "top_p": 0.9}):
        generated = [
            np.stack(
                [*generate(model, ids, 14, rng=np.random.default_rng(0), use_cache=use, **how)]
            )
            for use in (True, False)
        ]
        assert generated[0].shape == (14, 2)
        assert_array_equal(generated[0], generated[1])


@pytest.mark.parametrize(("name", "positions"), [*TYPES, SHORTER])
def test_prompts_of_different_length_are_continued_as_each_alone(
    name: str, positions: str, device: str
) -> None:
    """Also if one becomes longer than the context before another one has started."""
    model = in_float64(tiny(name, positions, device=device))
    texts = [ids_of(1, length)[0] for length in (5, 1, 8, 5, 14)]
    alone = [np.ravel([*generate(model, text[None], 9, temperature=0)]) for text in texts]
    for count, use_cache in ((0, True), (1, True), (9, True), (9, False)):
        together = continuations(model, texts, count, use_cache=use_cache)
        for ids, whole in zip(together, alone, strict=True):
            assert_array_equal(ids, whole[:count])


def test_a_continuation_ends_with_the_end_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated end token, not one of the prompt; a finished sequence is no longer computed.

    `generate` gets prompts of equal length.
    """
    columns = list(zip("xy⁇zzzzzzz", "b⁇xxxxxxxx", "⁇cpqrstuvw", strict=True))
    steps = []

    def write(model: Any, texts: Any, count: int, **how: Any) -> Any:
        for column in columns:
            steps.append(column)
            yield np.array([ord(character) for character in column])

    monkeypatch.setattr(importlib.import_module("tinyattn.models.generate"), "generate", write)
    model: Any = SimpleNamespace(device="cpu")
    texts = [np.array([ord(c) for c in text]) for text in ("ab", "a", "a⁇c")]
    found = continuations(model, texts, 5, end=ord("⁇"))
    assert ["".join(map(chr, ids)) for ids in found] == ["⁇", "xy⁇", "pqrst"]
    assert len(steps) == 7


def test_continuations_do_not_depend_on_workers() -> None:
    """Nor on the order of the prompts."""
    model = in_float64(tiny(positions="rotary"))
    texts = [ids_of(1, 1 + i % 5)[0] for i in range(40)]
    done: list[int] = []

    def write(texts: list[np.ndarray], workers: int) -> list[list[int]]:
        found = continuations(model, texts, 6, workers=workers, on_generated=done.append)
        return [ids.tolist() for ids in found]

    alone = write(texts, 1)
    assert sum(done) == 40 and len(done) == 3
    assert write(texts[::-1], 3) == alone[::-1]


# Mistakes ----------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "width must be a whole number above 0; got 0": (ValueError, lambda: tiny(width=0)),
    "heads must divide width 8; got 3": (ValueError, lambda: tiny(heads=3)),
    "dropout must be at least 0": (ValueError, lambda: tiny(dropout=1.0)),
    "positions must be one of .* got 'none'": (ValueError, lambda: tiny(positions="none")),
    "even width per head; got 1": (ValueError, lambda: tiny(positions="rotary", heads=8)),
    "a sequence of 13 tokens is longer than the context of 12; shorten it":
        (ValueError, lambda: tiny()(ids_of(1, 13))),
    r"integers \(B, T\); got int64 \(3,\)": (ValueError, lambda: tiny()(ids_of(3))),
    r"ids must lie in 0..10; got 1..11": (IndexError, lambda: tiny()([[1, 11]])),
    "at least 1 id each; got": (ValueError, lambda: next(generate(tiny(), ids_of(1, 0), 1))),
    "ids must be integers and count at least 0; got .'float64'.":
        (ValueError, lambda: next(generate(tiny(), [np.array([1.5])], 1))),
    r"count at least 0; got \['int64'\], -1":
        (ValueError, lambda: next(generate(tiny(), ids_of(1, 2), -1))),
    "generate: count must be at most 2147483647; got 9223372036854775807":
        (ValueError, lambda: next(generate(tiny(), ids_of(1, 2), 2**63 - 1))),
    "workers must be at most 1024": (ValueError, lambda: continuations(
        tiny(), ids_of(1, 2), 1, workers=10**6)),
    r"at least 1 id each; got \[\]": (ValueError, lambda: next(generate(tiny(), [], 1))),
    "must be one of multihead, .*, perceiver; got 'dense'":
        (ValueError, lambda: tiny("dense")),
    "'multihead' has no option 'block'": (ValueError, lambda: tiny("multihead,block=2")),
    "a GPT needs causal attention, not 'linformer': .* use linformer-causal":
        (ValueError, lambda: tiny("linformer")),
    "'synthesizer' cannot have rotary positions: it has no queries and keys":
        (ValueError, lambda: tiny("synthesizer", "rotary")),
    "'perceiver' needs at least 2 layers, down and up; got 1":
        (ValueError, lambda: tiny("perceiver", layers=1)),
    "window_blocks odd": (ValueError, lambda: tiny("bigbird,window_blocks=2")),
    "latents must be at least 1; got 0": (ValueError, lambda: tiny("perceiver,latents=0")),
}  # fmt: skip


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_raises_an_error(message: str) -> None:
    error, mistake = MISTAKES[message]
    with pytest.raises(error, match=message):
        mistake()
