"""Entropy and distance of attention weights: bounds, slopes, and finite values at 0."""

import math

import numpy as np
import plain
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from plain import scores_of, seeds

from tinyattn import Tensor, ops
from tinyattn.attention import Penalty, focus, head_statistics, near


def nats(weights: np.ndarray) -> float:
    """-Σ α ln α, term by term."""
    return -sum(a * math.log(a) for a in weights.tolist() if a > 0)


@given(scores_of(1, 9))
def test_entropy_and_its_slope(s: np.ndarray) -> None:
    """P32: 0 ≤ H ≤ ln n, both reached, and dH/ds_j = -α_j (ln α_j + H)."""
    a, n = plain.softmax(s), len(s)
    leaf = Tensor(s, requires_grad=True)
    H = focus(ops.softmax(leaf))
    H.backward()
    expected = nats(a)
    assert_allclose(H.item(), expected, rtol=1e-11, atol=1e-13)
    assert -1e-13 <= H.item() <= math.log(n) + 1e-13
    assert_allclose(leaf.grad, -a * (np.log(a) + expected), rtol=0, atol=1e-12)
    even, one = np.full(n, 1 / n), np.eye(n)[0]
    for weights, end in ((even, math.log(n)), (one, 0)):
        assert_allclose(focus(Tensor(weights)).item(), end, atol=1e-14)


@given(hnp.arrays(float, st.integers(1, 9), elements=st.floats(-2000, 2000)))
def test_entropy_is_finite_where_weights_round_to_zero(s: np.ndarray) -> None:
    """P45: and so is its gradient; both go to 0 when one score is much larger than the others."""
    leaf = Tensor(s, requires_grad=True)
    weights = ops.softmax(leaf)
    H = focus(weights)
    H.backward()
    expected = nats(plain.softmax(s))
    assert_allclose(H.item(), expected, rtol=1e-11, atol=1e-13)
    assert np.isfinite(leaf.grad).all()
    assert abs(leaf.grad.sum()) < 1e-10
    if len(s) > 1 and np.diff(np.sort(s))[-1] > 800:
        assert_allclose([H.item(), *leaf.grad], 0, atol=1e-300)


@given(st.integers(1, 12), st.floats(0.1, 60), st.floats(0, 9), seeds)
def test_the_distance_to_which_heads_attend(T: int, cap: float, sharp: float, seed: int) -> None:
    """P33: min(cap, Σ α (t - s)²): at most the largest distance, at least Σ α min(cap, (t-s)²)."""
    a = plain.softmax(sharp * np.random.default_rng(seed).standard_normal((2, 3, T, T)))
    square = np.subtract.outer(np.arange(T), np.arange(T)) ** 2.0
    found = near(Tensor(a), cap).numpy()
    expected = [[[min(cap, sum(a[b, h, t, s] * (t - s) ** 2 for s in range(T))) for t in range(T)]
                 for h in range(3)] for b in range(2)]  # fmt: skip
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    most = np.minimum(cap, square.max(axis=1))
    assert (found <= most + 1e-10).all()
    assert (found >= (a * np.minimum(cap, square)).sum(axis=-1) - 1e-10).all()
    farthest = np.eye(T)[square.argmax(axis=1)]
    for looks, bound in ((farthest, most), (np.eye(T), 0 * most)):
        assert_allclose(near(Tensor(looks[None, None]), cap).numpy()[0, 0], bound, rtol=1e-12)


@given(st.integers(1, 3), st.integers(1, 6), st.floats(0, 2), st.floats(0, 2), seeds)
def test_a_penalty_is_the_mean_without_padding(
    layers: int, T: int, of_focus: float, of_near: float, seed: int
) -> None:
    """Over layers, heads, and queries that are not padding."""
    rng, cap = np.random.default_rng(seed), 4.0
    given = plain.softmax(rng.standard_normal((layers, 2, 3, T, T)))
    counts = rng.random((2, T)) < 0.7
    counts[0, 0] = True
    rows = [(row, t) for layer in given for b, text in enumerate(layer) for head in text
            for t, row in enumerate(head) if counts[b, t]]  # fmt: skip
    spread = np.mean([nats(row) for row, _ in rows])
    far = np.mean([min(cap, row @ (np.arange(T) - t) ** 2) for row, t in rows])
    tensors = [Tensor(layer) for layer in given]
    total = Penalty(of_focus, of_near, cap)(tensors, counts, float(counts.sum()))
    assert_allclose(total.item(), of_focus * spread + of_near * far, rtol=1e-10, atol=1e-12)
    found = head_statistics(tensors, counts, cap, {})
    assert_allclose([found["entropy"], found["distance"]], [spread, far], rtol=1e-10, atol=1e-12)
