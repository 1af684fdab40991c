"""For all shapes and axes: reductions and broadcasting behave as in NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck, ops
from tinyattn.tensor import OPS

seeds = st.integers(0, 1000)


def numbers(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Distinct positive numbers, away from every kink, valid for every binary op."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(0.5, 2.0, shape)) for shape in shapes]


@st.composite
def shape_and_axis(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, max_side=3))
    ways = [st.none(), hnp.valid_tuple_axes(len(shape))]
    if shape:
        ways.append(st.integers(-len(shape), len(shape) - 1))
    return shape, draw(st.one_of(ways))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std"])
@given(shape_and_axis(), st.booleans(), seeds)
def test_reductions(
    name: str, where: tuple[tuple[int, ...], Any], keepdims: bool, seed: int
) -> None:
    shape, axis = where
    (x,) = numbers(seed, shape)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    y = OPS[name](x, axis=axis, keepdims=keepdims)
    assert y.shape == expected.shape
    assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-15)
    if name != "std" or np.all(expected > 0):  # a deviation of 0 is a kink
        assert gradcheck(lambda t: OPS[name](t, axis=axis, keepdims=keepdims), x, directions=1)


BINARY = ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]


@pytest.mark.parametrize("name", BINARY)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3), seeds)
def test_broadcasting_of_two(name: str, shapes: hnp.BroadcastableShapes, seed: int) -> None:
    a, b = numbers(seed, *shapes.input_shapes)
    y = OPS[name](a, b)
    assert y.shape == shapes.result_shape
    assert_allclose(y.numpy(), getattr(np, name)(a, b), rtol=1e-12)
    assert gradcheck(OPS[name], a, b, directions=1)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_side=3, max_dims=3), seeds)
def test_where_takes_each_element_from_one_of_two(
    shapes: hnp.BroadcastableShapes, seed: int
) -> None:
    """Also the gradient: only the chosen operand receives it."""
    c, a, b = numbers(seed, *shapes.input_shapes)
    condition = c > 1
    leaves = [Tensor(x, requires_grad=True) for x in (a, b)]
    y = ops.where(condition, *leaves)
    assert_array_equal(y.numpy(), np.where(condition, a, b))
    y.backward(np.ones(y.shape))
    chosen = np.broadcast_to(condition, y.shape).sum()
    assert [leaf.grad.sum() for leaf in leaves] == [chosen, y.size - chosen]


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3), seeds)
def test_a_repeated_tensor_receives_the_sum_over_its_copies(
    shapes: hnp.BroadcastableShapes, seed: int
) -> None:
    x, _ = numbers(seed, *shapes.input_shapes)
    leaf = Tensor(x, requires_grad=True)
    y = leaf.broadcast_to(shapes.result_shape)
    y.backward(np.ones(y.shape))
    assert_array_equal(y.numpy(), np.broadcast_to(x, y.shape))
    assert_array_equal(leaf.grad, np.full(x.shape, y.size / max(1, x.size)))


@given(st.permutations(range(4)), seeds)
def test_moving_axes_there_and_back(axes: list[int], seed: int) -> None:
    x, u = numbers(seed, (1, 2, 3, 4), (1, 2, 3, 4))
    leaf = Tensor(x, requires_grad=True)
    there = leaf.transpose(*axes)
    back = there.transpose(*np.argsort(axes).tolist())
    back.backward(u)
    assert_array_equal(there.numpy(), x.transpose(axes))
    assert_array_equal(back.numpy(), x)
    assert_array_equal(leaf.grad, u)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(-2, 1), seeds)
def test_cutting_and_joining_are_inverses(sizes: list[int], axis: int, seed: int) -> None:
    shape = [2, 2]
    shape[axis] = sum(sizes)
    x, u = numbers(seed, tuple(shape), tuple(shape))
    leaf = Tensor(x, requires_grad=True)
    joined = ops.concatenate(ops.split(leaf, sizes, axis=axis), axis=axis)
    joined.backward(u)
    assert_array_equal(joined.numpy(), x)
    assert_array_equal(leaf.grad, u)
