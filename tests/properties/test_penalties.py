"""Penalties for attention to many or distant positions, in a batch with padding."""

import math

import numpy as np
import plain
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import seeds

from tinyattn import Tensor
from tinyattn.attention import Penalty, head_statistics


def nats(weights: np.ndarray) -> float:
    """-Σ α ln α, term by term."""
    return -sum(a * math.log(a) for a in weights.tolist() if a > 0)


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
