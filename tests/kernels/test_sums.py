"""Sums in pieces: equal to a plain sum, and right also where a plain float32 sum is not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.kernels.cpu import sums
from tinyattn.kernels.cpu.sums import PIECE, running_sum, sum_over, sum_rows

BEYOND = 2**24 + 8
"""More ones than float32 can count one by one."""

shapes = st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple)


@given(shapes, st.data(), st.booleans(), st.sampled_from("CF"))
def test_pieces_do_not_change_a_sum(
    shape: tuple, data: st.DataObject, keepdims: bool, order: str
) -> None:
    """With pieces of three elements; integers are added exactly in any order."""
    x = np.asarray(np.random.default_rng(0).integers(-9, 9, shape), np.float32, order=order)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PIECE", 3)
        found = sum_over(np, x, axes, keepdims=keepdims)
        assert_array_equal(found, x.sum(axes, keepdims=keepdims))
        assert_array_equal(running_sum(np, x, axis), np.cumsum(x, axis))
        rows = x.reshape(shape[0], math.prod(shape[1:]))
        assert_array_equal(sum_rows(rows), rows.sum(0))


def test_ones_are_counted_beyond_what_float32_can_count_one_by_one() -> None:
    ones = np.broadcast_to(np.float32(1), (BEYOND, 2))  # needs no memory
    assert_array_equal(sum_over(np, ones, (0,)), [BEYOND, BEYOND])
    assert_array_equal(sum_rows(ones), [BEYOND, BEYOND])
    assert running_sum(np, ones[:, :1], 0)[-1] == BEYOND


def test_many_weights_sum_to_one() -> None:
    scores = Tensor(np.zeros((4 * PIECE, 2)), dtype="float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PIECE", 64)
        for p in (ops.softmax(scores, axis=0), ops.exp(ops.log_softmax(scores, axis=0))):
            assert_allclose(p.numpy().astype(float).sum(0), 1, rtol=1e-6)
    large = np.full((4 * PIECE, 2), -16.635533, np.float32)  # e^-16.6 is 2⁻²⁴
    large[0] = 0
    p = ops.softmax(Tensor(large), axis=0).numpy().astype(float)
    assert_allclose(p.sum(0), 1, atol=3e-4)


def test_the_gradient_of_a_bias_counts_all_rows() -> None:
    """float32 cannot add 1 to 2²⁴: the value 2²⁴ among ones is as hard as that many ones."""
    rows = np.ones((4 * PIECE, 2), np.float32)
    rows[0] = 2.0**24
    x = Tensor(rows)
    total = rows.astype(np.float64).sum(axis=0)
    bias = Tensor([0.0, 0.0], dtype="float32", requires_grad=True)
    for y in (ops.linear(x, Tensor(np.eye(2), dtype="float32"), bias), x + bias):
        bias.zero_grad()
        y.backward(rows)
        assert_allclose(bias.grad, total, atol=PIECE)
    for y in (x.sum(axis=0), x.mean(axis=0) * float(len(rows)), x.cumsum(axis=0)[-1]):
        assert_allclose(y.numpy(), total, atol=PIECE)


def test_an_id_may_occur_more_often_than_float32_can_count() -> None:
    rows = np.ones((4 * PIECE, 2), np.float32)
    rows[0] = 2.0**24
    table = Tensor(np.zeros((2, 2)), dtype="float32", requires_grad=True)
    for pick in (lambda ids: ops.embedding(table, ids), lambda ids: table[ids]):
        table.zero_grad()
        pick(np.zeros(len(rows), np.uint8)).backward(rows)
        assert_allclose(table.grad, [[2.0**24 + len(rows)] * 2, [0, 0]], atol=PIECE)


@pytest.mark.parametrize("axes", [(0,), (0, 1), (1,), (0, 2)])
def test_rounding_errors_stay_small_for_any_number_of_terms(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((300, 200, 2), np.float32).swapaxes(0, 1)
    exact = x.astype(np.float64).sum(axes)
    assert_allclose(sum_over(np, x, axes), exact, rtol=2e-6)
