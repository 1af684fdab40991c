"""What formulas say that blocks do is what they do."""

import math
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kinds import told, written

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import AttentionBlock
from tinyattn.measure import new_block
from tinyattn.models import MECHANISMS
from tinyattn.tensor import OPS
from tinyattn.theory import formula_value, letters

WIDTH, HEADS = 16, 4
USES = [
    pytest.param(name, causal, id=f"{name}-{use}")
    for name, kind in MECHANISMS.items()
    for causal, use in ((True, "causal"), (False, "bidirectional"))
    if use not in kind.cannot
]
every_use = pytest.mark.parametrize(("name", "causal"), USES)


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the multiply-adds of the products of all ops meanwhile."""
    total: Counter[str] = Counter()

    def products(name: str, y: Tensor, *arrays: Any) -> int:
        if name == "attention":
            q, k, v = arrays[:3]
            return math.prod(y.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])
        if name == "einsum":
            raise NotImplementedError("no block uses einsum yet; count it here if one does")
        return y.size * arrays[0].shape[-1]

    def counted(name: str) -> Any:
        plain = OPS[name]

        def call(*arrays: Any, **options: Any) -> Tensor:
            y = plain(*arrays, **options)
            total.update(adds=products(name, y, *arrays))
            return y

        return call

    with patch.context() as inside:
        for name in ("attention", "linear", "matmul", "einsum"):
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
        before = total["adds"]
    (a @ b).sum()
    assert total["adds"] == before  # it stops with the context


def block(name: str, length: int) -> AttentionBlock:
    return new_block(written(name, told(name).COUNTED), WIDTH, HEADS, length)


def counts(made: AttentionBlock, length: int, causal: bool, patch: pytest.MonkeyPatch) -> int:
    x = np.random.default_rng(0).standard_normal((1, length, WIDTH)).astype(np.float32)
    with no_grad(), counting(patch) as total:
        made(Tensor(x), causal=causal)
    return total["adds"]


def formula(made: AttentionBlock, length: int, causal: bool) -> Fraction:
    return formula_value(made.multiply_adds, letters(made, length, causal))


@every_use
@pytest.mark.parametrize("length", [64, 16])
def test_formulas_are_exact_for_whole_segments(
    name: str, causal: bool, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = block(name, length)
    assert counts(made, length, causal, monkeypatch) == formula(made, length, causal)


@every_use
@pytest.mark.parametrize("length", [61, 33])
def test_formulas_are_near_for_incomplete_segments(
    name: str, causal: bool, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between those of the whole segments, and of as many as there are with the last filled up."""
    made = block(name, length)
    found = counts(made, length, causal, monkeypatch)
    low, high = (formula(made, n, causal) for n in (length // 8 * 8, -(-length // 8) * 8))
    assert low < found <= high
    if "K" not in made.sizes():
        assert found == formula(made, length, causal)


@every_use
def test_what_is_kept_is_what_the_formula_says(name: str, causal: bool) -> None:
    """Measured, with small things on top: a mask of their own, the same for all heads, for some."""
    made, length = new_block(name, 64, 4, 512), 512
    x = Tensor(np.zeros((1, length, 64), np.float32), requires_grad=True)
    made(x, causal=causal)  # what is made at the first call only is not counted
    tracemalloc.start()
    try:
        y = made(x, causal=causal)
        kept = tracemalloc.get_traced_memory()[0] - y.data.nbytes
    finally:
        tracemalloc.stop()
    said = 4 * formula_value(made.kept_numbers, letters(made, length, causal))
    assert 0.8 < kept / said < (1.6 if told(name).OWN_MASK else 1.3)


def test_formula_value() -> None:
    values = {"T": 6, "K": 4, "C": 3}
    assert formula_value("4·T·C² + 2·T/K·C", values) == 4 * 6 * 9 + Fraction(2 * 6, 4) * 3
    assert formula_value("2·(T - K)·C - 1", values) == 11
    assert formula_value("T/K", values) == Fraction(3, 2)


@pytest.mark.parametrize(
    "formula", ["4·Q", "T(2)", "T**3", "__import__('os')", "T if T else 1", "T +", "'T'", "1.5·T"]
)
def test_only_formulas_are_read(formula: str) -> None:
    with pytest.raises(ValueError, match=r"formula_value: cannot read"):
        formula_value(formula, {"T": 2})
