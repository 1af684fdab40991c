"""For any index: the value is NumPy's, and every element receives the gradients of its uses."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.backend import asarray, asnumpy

shapes = hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)


@st.composite
def mixed_indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices, None, ..., lists and arrays in one index."""
    together = draw(st.sampled_from([(), (2,), (3,), (2, 1)]))  # the shape of all arrays here
    keys: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        place = st.integers(-n, n - 1)
        array = hnp.arrays(np.intp, together, elements=place)
        keys.append(draw(st.one_of(place, st.slices(n), array, array.map(np.ndarray.tolist))))
    if len(keys) < len(shape):
        keys += draw(st.sampled_from([[], [...], [..., -1]]))
    keys[0:0] = draw(st.sampled_from([[], [None]]))
    return tuple(keys)


@st.composite
def shapes_and_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(shapes)
    covered = shape[: draw(st.integers(1, len(shape)))]
    return shape, draw(
        st.one_of(
            hnp.basic_indices(shape, allow_newaxis=True),
            hnp.integer_array_indices(shape),
            hnp.arrays(bool, covered),
            mixed_indices(shape),
        )
    )


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """Integers, so that sums in every order are exact."""
    return np.random.default_rng(0).integers(-9, 9, shape).astype(float)


@given(shapes_and_indices())
def test_every_index(device: str, case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    places = np.arange(np.prod(shape)).reshape(shape)
    x = Tensor(places, requires_grad=True, device=device)
    y = x[index]
    read = places[index]  # which element of x each element of y is
    assert_array_equal(y.numpy(), read)
    u = cotangent(y.shape)
    y.backward(asarray(u, device=device))
    received = np.bincount(np.ravel(read), weights=np.ravel(u), minlength=x.size)
    assert_array_equal(asnumpy(x.grad), received.reshape(shape))


@st.composite
def gatherings(draw: st.DrawFn) -> tuple[tuple[int, ...], np.ndarray, int]:
    """A shape, indices that fit it along an axis, and the axis."""
    shape = draw(shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    sizes = list(shape)
    sizes[axis] = draw(st.integers(0, 5))
    n = shape[axis]
    return shape, draw(hnp.arrays(np.intp, tuple(sizes), elements=st.integers(-n, n - 1))), axis


@given(gatherings())
def test_gather_and_scatter_add_are_transposes(
    device: str, case: tuple[tuple[int, ...], np.ndarray, int]
) -> None:
    """⟨gather(x, i), u⟩ = ⟨x, scatter_add(0, i, u)⟩, and each is the other's gradient."""
    shape, i, axis = case
    x, u = cotangent(shape), cotangent(i.shape)
    there = asarray(i, device=device)
    tensor, values = (Tensor(a, device=device, requires_grad=True) for a in (x, u))
    gathered = ops.gather(tensor, there, axis=axis)
    assert_array_equal(gathered.numpy(), np.take_along_axis(x, i, axis))
    zeros = Tensor(np.zeros(shape), device=device)
    scattered = ops.scatter_add(zeros, there, values, axis=axis)
    assert_allclose((gathered.numpy() * u).sum(), (x * scattered.numpy()).sum())
    gathered.backward(values)
    scattered.backward(tensor)
    assert_array_equal(asnumpy(tensor.grad), scattered.numpy())
    assert_array_equal(asnumpy(values.grad), gathered.numpy())
