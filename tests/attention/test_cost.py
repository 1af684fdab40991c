"""What formulas say that blocks do is what they do."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import AttentionBlock, evaluate, letters
from tinyattn.models import MECHANISMS, new_block
from tinyattn.tensor import OPS

WIDTH, HEADS = 16, 4
OPTIONS = {  # segments and blocks of 8, so that 64 is a multiple of all
    "bigbird": ",block=8,global_blocks=2,random_blocks=1",
    "linformer": ",rows=12",
    "linformer-causal": ",segment=8,rows=3",
    "latent": ",segment=8",
    "perceiver": ",latents=10",
}
USES = [
    pytest.param(name, causal, id=f"{name}-{use}")
    for name, kind in MECHANISMS.items()
    for causal, use in ((True, "causal"), (False, "bidirectional"))
    if use not in kind.cannot
]
every_use = pytest.mark.parametrize(("name", "causal"), USES)


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the multiply-adds of products, and the attention weights, of all ops meanwhile."""
    total: Counter[str] = Counter()

    def products(name: str, y: Tensor, *arrays: Any, **options: Any) -> tuple[int, int]:
        if name == "attention":
            q, k, v = arrays[:3]
            scores = math.prod(y.shape[:-1]) * k.shape[-2]
            return scores * (q.shape[-1] + v.shape[-1]), scores
        if name == "einsum":
            raise NotImplementedError("no block uses einsum yet; count it here if one does")
        return (0, y.size) if name == "softmax" else (y.size * arrays[0].shape[-1], 0)

    def counted(name: str) -> Any:
        plain = OPS[name]

        def call(*arrays: Any, **options: Any) -> Tensor:
            y = plain(*arrays, **options)
            adds, weights = products(name, y, *arrays)
            total.update(adds=adds, weights=weights)
            return y

        return call

    with patch.context() as inside:
        for name in ("attention", "linear", "matmul", "einsum", "softmax"):
            wrapped = counted(name)
            inside.setitem(OPS, name, wrapped)
            inside.setattr(ops, name, wrapped)
        yield total


def test_the_counter_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = Tensor(np.ones((2, 3, 5))), Tensor(np.ones((5, 7)))
    with counting(monkeypatch) as total:
        assert (a @ b).shape == (2, 3, 7)
        assert total["adds"] == 2 * 3 * 5 * 7
        ops.linear(a, b)
        assert total["adds"] == 2 * (2 * 3 * 5 * 7)
        ops.attention(a, a, a[..., :4])
        assert total["adds"] - 2 * (2 * 3 * 5 * 7) == 2 * 3 * 3 * (5 + 4)
        ops.softmax(a)
    assert total["weights"] == 2 * 3 * 3 + 2 * 3 * 5
    (a @ b).sum()
    assert total["weights"] == 2 * 3 * 3 + 2 * 3 * 5  # it stops with the context


def block(name: str, length: int) -> AttentionBlock:
    return new_block(name + OPTIONS.get(name, ""), WIDTH, HEADS, length)


def counts(
    made: AttentionBlock, length: int, causal: bool, patch: pytest.MonkeyPatch
) -> Counter[str]:
    x = np.random.default_rng(0).standard_normal((1, length, WIDTH)).astype(np.float32)
    with no_grad(), counting(patch) as total:
        made(Tensor(x), causal=causal)
    return total


def formulas(made: AttentionBlock, length: int, causal: bool) -> dict[str, Fraction]:
    values = letters(made, length, causal)
    return {"adds": evaluate(made.multiply_adds, values),
            "weights": evaluate(made.weight_numbers, values)}  # fmt: skip


@every_use
@pytest.mark.parametrize("length", [64, 16])
def test_formulas_are_exact_for_whole_segments(
    name: str, causal: bool, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = block(name, length)
    assert counts(made, length, causal, monkeypatch) == formulas(made, length, causal)


@every_use
@pytest.mark.parametrize("length", [61, 33])
def test_formulas_are_near_for_incomplete_segments(
    name: str, causal: bool, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between those of the whole segments, and of as many as there are with the last filled up."""
    made = block(name, length)
    found = counts(made, length, causal, monkeypatch)
    low, high = (formulas(made, n, causal) for n in (length // 8 * 8, -(-length // 8) * 8))
    for what in ("adds", "weights"):
        assert low[what] < found[what] <= high[what]
    if "K" not in made.sizes():
        assert found == formulas(made, length, causal)


def test_evaluate() -> None:
    values = {"T": 6, "K": 4, "C": 3}
    assert evaluate("4·T·C² + 2·T/K·C", values) == 4 * 6 * 9 + Fraction(2 * 6, 4) * 3
    assert evaluate("2·(T - K)·C - 1", values) == 11
    assert evaluate("T/K", values) == Fraction(3, 2)


@pytest.mark.parametrize(
    "formula", ["4·Q", "T(2)", "T**3", "__import__('os')", "T if T else 1", "T +", "'T'", "1.5·T"]
)
def test_evaluate_reads_formulas_only(formula: str) -> None:
    with pytest.raises(ValueError, match=r"evaluate: cannot read"):
        evaluate(formula, {"T": 2})
