"""Formulas of this chapter at the ends of their range."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.theory import (
    averaging_error,
    averaging_weight,
    one_head_distribution,
    orthonormal,
    rank_for,
    stratified_lengths,
    total_variance,
    truncated,
    window_bound,
)


@pytest.mark.parametrize("size", [-1000.0, -700.0, -3.0, 0.0, 3.0, 700.0, 1000.0])
@pytest.mark.parametrize("n", [2, 3, 9])
def test_weights_and_errors_for_any_size_of_the_query(n: int, size: float) -> None:
    for many in range(1, n + 1):
        scores = Tensor(np.array([size] * many + [0.0] * (n - many)))
        weight = ops.softmax(scores).numpy()[0]
        assert_allclose(averaging_weight(n, size, many), weight, rtol=1e-12, atol=1e-300)
    one = 1 - 2 * averaging_weight(n, size)
    two = 1 - averaging_weight(n, size, 1) - averaging_weight(n, -size, n - 1)
    assert_allclose([averaging_error(n, size), averaging_error(n, size, 2)], [one, two], atol=1e-15)


def test_errors_of_averages_are_exact_where_a_difference_would_round_to_zero() -> None:
    assert_allclose(averaging_error(4, 600), math.exp(-600), rtol=1e-12)
    assert_allclose(averaging_error(4, 600, heads=2), 2 * math.exp(-600), rtol=1e-12)


def test_two_maxima_are_distinguished_from_one_step_of_the_grid_on() -> None:
    """With n = 2 they separate at M = 2 as logit α = ±√(12 (M - 2)), to first order."""
    for above, modes in ((-1e-3, 1), (1e-9, 1), (1e-4, 2), (1e-2, 2)):
        size = 2 + above
        found = one_head_distribution(size, 2).modes()
        assert len(found) == modes
        step = (size**2 / 2 + 1) / 10_000
        assert modes == 1 or 2 * math.sqrt(12 * above) > step
        if modes == 2:
            logits = [math.log(a / (1 - a)) for a in found]
            assert_allclose(logits, [-math.sqrt(12 * above), math.sqrt(12 * above)], rtol=0.02)


def test_the_smallest_and_the_largest_arguments() -> None:
    rng = np.random.default_rng(0)
    weights = Tensor(rng.standard_normal((3, 4)))
    assert_array_equal(truncated(weights, 0).numpy(), np.zeros((3, 4)))
    assert_allclose(truncated(weights, 3).numpy(), weights.numpy(), atol=1e-14)
    assert [rank_for(weights, share) for share in (1e-9, 1.0)] == [1, 3]
    assert orthonormal(rng, 0, 3).shape == (0, 3)
    assert_allclose(abs(orthonormal(rng, 1, 1)), [[1.0]])
    assert_array_equal(stratified_lengths(3, 0.0), np.ones(3))
    assert_allclose(stratified_lengths(1), [1.0])
    assert total_variance(weights, 0, 1, 0.0, 2) == 0
    assert_allclose([window_bound(4, 0.0, 1.0), window_bound(2, 5.0, 0.0)], [0.5, 0.0])
