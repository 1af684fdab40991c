"""Sums in pieces: what a plain sum gives where that is right, and right where it stops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops, sums
from tinyattn.sums import PIECE, running_sum, scatter_add, sum_over, sum_rows

BEYOND = 2**24 + 8
"""More ones than float32 can count one by one."""

shapes = st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple)


@given(shapes, st.data(), st.booleans(), st.sampled_from("CF"))
def test_pieces_do_not_show(shape: tuple, data: st.DataObject, keepdims: bool, order: str) -> None:
    """With pieces of three numbers; whole numbers are added exactly in any order."""
    x = np.asarray(np.random.default_rng(0).integers(-9, 9, shape), np.float32, order=order)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PIECE", 3)
        assert_array_equal(sum_over(x, axes, keepdims=keepdims), x.sum(axes, keepdims=keepdims))
        assert_array_equal(running_sum(x, axis), np.cumsum(x, axis))
        rows = x.reshape(shape[0], math.prod(shape[1:]))
        assert_array_equal(sum_rows(rows), rows.sum(0))


@given(st.lists(st.integers(-4, 3), max_size=40))
def test_pieces_of_a_run_do_not_show(ids: list[int]) -> None:
    values = np.arange(2.0 * len(ids)).reshape(-1, 2)
    expected = np.ones((4, 2))
    np.add.at(expected, np.array(ids, int), values)
    found = np.ones((4, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PIECE", 3)
        scatter_add(found, np.array(ids, int), values)
    assert_array_equal(found, expected)


def test_ones_are_counted_beyond_what_float32_can_count_one_by_one() -> None:
    x = Tensor(np.ones((BEYOND, 1)), dtype="float32")
    bias = Tensor(np.zeros(1), dtype="float32", requires_grad=True)
    ops.linear(x, Tensor([[1.0]], dtype="float32"), bias).backward(x)
    assert bias.grad == BEYOND
    bias.zero_grad()
    (x + bias).backward(x)
    assert bias.grad == BEYOND
    assert x.sum(axis=0).item() == BEYOND and x.mean(axis=0).item() == 1
    assert x.cumsum(axis=0).numpy()[-1] == BEYOND


def test_an_id_may_occur_more_often_than_float32_can_count() -> None:
    """2¹⁴ values of 2¹¹ are as far from one of them as 2²⁴ ones are from 1."""
    table = Tensor(np.zeros((2, 1)), dtype="float32", requires_grad=True)
    count, large = 3 * PIECE + 5, 2.0**24
    ops.embedding(table, np.zeros(count + 1, np.uint8)).backward(
        np.append(large, np.ones(count))[:, None]
    )
    assert abs(table.grad[0, 0] - (large + count)) <= PIECE


@pytest.mark.parametrize("axes", [(0,), (0, 1), (1,), (0, 2)])
def test_rounding_errors_stay_small_however_many_are_added(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((300, 200, 2), np.float32).swapaxes(0, 1)
    exact = x.astype(np.float64).sum(axes)
    assert_allclose(sum_over(x, axes), exact, rtol=2e-6)
