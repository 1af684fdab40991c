"""One step of generation on arrays gives the bits that the model gives."""

from typing import Any

import numpy as np
import pytest

import tinyattn
from tinyattn.attention import ATTENTION, MultiHead
from tinyattn.dispatch import observers
from tinyattn.models import GPT, GPTConfig
from tinyattn.models.generate import generate, next_logits
from tinyattn.nn import FeedForward, Linear
from tinyattn.services import BOOK

by_the_model = BOOK["next_logits"]
ids = np.random.default_rng(0).integers(0, 11, (3, 9))


def new_model(**options: Any) -> GPT:
    sizes = {"vocabulary": 11, "context": 12, "layers": 2, "heads": 2, "width": 8}
    model = GPT(GPTConfig(**{**sizes, "dropout": 0.1, **options}), seed=1)
    rng = np.random.default_rng(2)
    for parameter in model.parameters():  # biases and positions are 0 in a new model
        parameter.data = rng.standard_normal(parameter.shape, np.float32)
    return model


def steps(model: GPT, step: Any) -> list[np.ndarray]:
    """The logits after the first 4 tokens, and after each one of the others."""
    cache = model.new_cache()
    parts = [ids[:, :4], *(ids[:, i : i + 1] for i in range(4, ids.shape[1]))]
    return [step(np, model, part, cache) for part in parts]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of positions in each call of the model itself, from now on."""
    lengths: list[int] = []

    def call(xp: Any, model: GPT, ids: np.ndarray, cache: Any) -> Any:
        lengths.append(ids.shape[1])
        return by_the_model(xp, model, ids, cache)

    monkeypatch.setitem(BOOK, "next_logits", call)
    return lengths


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_are_those_of_the_model(
    positions: str, gelu: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = new_model(positions=positions, gelu=gelu)
    model.astype(dtype)
    expected = steps(model, by_the_model)
    lengths = counted(monkeypatch)
    found = steps(model, next_logits)
    assert lengths == [4]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == dtype and np.array_equal(a, b)


class Own(MultiHead):
    """Somebody's attention type, which looks like multi-head attention."""

    def attend(self, *arguments: Any) -> Any:
        return super().attend(*arguments) * 2


def own_head(model: GPT) -> None:
    model.head.__class__ = type("OwnLinear", (Linear,), {})


def own_activation(model: GPT) -> None:
    feedforward: Any = model.layers[1].feedforward
    feedforward.__class__ = type("OwnFeedForward", (FeedForward,), {})


def replaced(model: GPT) -> None:
    block: Any = model.layers[0].attention
    attend = block.attend
    block.attend = lambda *arguments: attend(*arguments) * 2


def test_the_model_computes_what_this_file_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = counted(monkeypatch)
    cached = [name for name, block in ATTENTION.items() if "cache" not in block.cannot]
    for name in [*cached, "own"]:
        model = new_model(attention="multihead" if name == "own" else name)
        if name == "own":
            for layer in model.layers:
                layer.attention.__class__ = Own
        lengths.clear()
        assert steps(model, next_logits)
        assert lengths == ([4] if name == "multihead" else [4, 1, 1, 1, 1, 1]), name
    for change in (own_head, own_activation, replaced):
        model = new_model()
        change(model)
        lengths.clear()
        steps(model, next_logits)
        assert lengths == [4, 1, 1, 1, 1, 1], change
    lengths.clear()
    observers.append(lambda formula, run, reason: run)  # such as a profiler
    try:
        steps(new_model(), next_logits)
    finally:
        observers.pop()
    with tinyattn.formulas("gelu"):
        steps(new_model(), next_logits)
    assert lengths == 2 * [4, 1, 1, 1, 1, 1]


def test_errors_are_those_of_the_model() -> None:
    model = new_model(context=9)
    cache = model.new_cache()
    next_logits(np, model, ids[:, :8], cache)
    with pytest.raises(IndexError, match=r"ids must lie in 0\.\.10; got -1\.\.11"):
        next_logits(np, model, np.array([[-1], [0], [11]]), cache)
    next_logits(np, model, ids[:, 8:], cache)
    with pytest.raises(ValueError, match="10 tokens is longer than the context of 9"):
        next_logits(np, model, ids[:, :1], cache)


def test_a_changed_parameter_counts_at_the_next_step() -> None:
    """No number of the model is kept between two steps."""
    model, other = new_model(), new_model()
    cache, others = model.new_cache(), other.new_cache()
    for part in (ids[:, :4], ids[:, 4:5]):
        next_logits(np, model, part, cache)
        by_the_model(np, other, part, others)
    for one in (model, other):
        one.layers[0].feedforward.expand.weight.data *= 2
    expected = by_the_model(np, other, ids[:, 5:6], others)
    assert np.array_equal(next_logits(np, model, ids[:, 5:6], cache), expected)


def test_generate_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = counted(monkeypatch)
    assert len(list(generate(new_model(), ids[:, :3], 5, temperature=0))) == 5
    assert lengths == [3]
