"""Chapter 6: operations that change the shape, or the order of the elements.

The gradient is moved back in the same way. Most results share memory with their input, as in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tinyattn.backend import Array
from tinyattn.op import op
from tinyattn.tensor import Tensor


@op
def reshape(xp: Any, x: Array, *, shape: tuple[int, ...]) -> Any:
    """The same elements, in the same order, in another shape.

    Forward:  y = x
    Backward: dx = g in x's shape
    Shapes:   x any -> y `shape`; one size may be -1 and is computed
    Raises:   ValueError if the number of elements differs
    """
    before = x.shape  # all that the vjp keeps
    return x.reshape(shape), (lambda g: g.reshape(before),)


@op
def transpose(xp: Any, x: Array, *, axes: tuple[int, ...] | None = None) -> Any:
    """The axes in another order: axis i of y is axis axes[i] of x; by default reversed.

    Forward:  y[j] = x[i], i the index j permuted
    Backward: dx is g with the axes put back
    Shapes:   y has x's sizes in the new order
    """
    ndim = x.ndim  # all that the vjp keeps

    def dx(g: Array) -> Array:
        order = range(ndim)[::-1] if axes is None else [axis % ndim for axis in axes]
        return g.transpose(sorted(range(ndim), key=lambda i: order[i]))

    return x.transpose(axes), (dx,)


@op
def swapaxes(xp: Any, x: Array, *, first: int, second: int) -> Any:
    """x with two axes exchanged.

    Forward:  y = x with the two axes exchanged
    Backward: dx = g with them exchanged again
    Shapes:   y has x's sizes, those two exchanged
    """
    return x.swapaxes(first, second), (lambda g: g.swapaxes(first, second),)


@op
def broadcast_to(xp: Any, x: Array, *, shape: tuple[int, ...]) -> Any:
    """x repeated, without copying, to fill `shape`.

    Forward:  y = x along the new or stretched axes
    Backward: dx = Σ g over them
    Shapes:   x must broadcast to `shape`, which is y's
    Raises:   ValueError if x does not fit `shape` by the rules of broadcasting
    """
    return xp.broadcast_to(x, shape), (lambda g: g,)


@op
def expand_dims(xp: Any, x: Array, *, axis: int | tuple[int, ...]) -> Any:
    """A new axis of size 1.

    Forward:  y = x
    Backward: dx = g without the axis
    Shapes:   y has x's sizes, and 1 at each place of `axis`
    """
    before = x.shape
    return xp.expand_dims(x, axis), (lambda g: g.reshape(before),)


@op
def squeeze(xp: Any, x: Array, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """x without its axes of size 1 (all of them, or those named).

    Forward:  y = x
    Backward: dx = g with the axes back in place
    Shapes:   y has x's sizes without those axes
    Raises:   ValueError if a named axis is not of size 1
    """
    before = x.shape
    return xp.squeeze(x, axis=axis), (lambda g: g.reshape(before),)


@op
def flip(xp: Any, x: Array, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """The elements in reverse order along an axis, or along all.

    Forward:  y_i = x_{n-1-i}
    Backward: dx = g flipped again
    Shapes:   y as x
    """
    return xp.flip(x, axis), (lambda g: xp.flip(g, axis),)


@op
def pad(
    xp: Any, x: Array, *, widths: int | Sequence[int | Sequence[int]], value: float = 0.0
) -> Any:
    """x with a border of one value; `widths` is (before, after) for each axis, as in NumPy.

    Forward:  y = x inside, `value` in the border
    Backward: dx = the inside of g
    Shapes:   axis i grows by widths[i][0] + widths[i][1]
    """
    if not isinstance(value, (int, float)):
        raise TypeError(f"pad: value must be a number; got {type(value).__name__}")
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2)).tolist()  # NumPy's rule
    y = xp.pad(x, pairs, mode="constant", constant_values=value)
    inside = tuple(slice(b, b + n) for (b, _), n in zip(pairs, x.shape, strict=True))
    return y, (lambda g: g[inside],)


@op
def tril(xp: Any, x: Array, *, offset: int = 0) -> Any:
    """The lower triangle of each matrix; above it, zeros.

    Forward:  y_ij = x_ij if j ≤ i + offset, else 0
    Backward: dx = the lower triangle of g
    Shapes:   x (..., M, N) -> y (..., M, N)
    """
    return xp.tril(x, offset), (lambda g: xp.tril(g, offset),)


@op
def concatenate(xp: Any, *xs: Array, axis: int = 0) -> Any:
    """Tensors one after the other along an existing axis.

    Forward:  y = [x_1, x_2, ...]
    Backward: dx_k = the part of g at the place of x_k
    Shapes:   all sizes agree, except those along `axis`, which are added
    Raises:   ValueError if the other sizes differ
    """
    y = xp.concatenate(xs, axis=axis)
    stops = [0]
    for x in xs:
        stops.append(stops[-1] + x.shape[axis])

    def piece(k: int) -> Any:
        index = [slice(None)] * y.ndim
        index[axis] = slice(stops[k], stops[k + 1])
        return lambda g: g[tuple(index)]

    return y, tuple(piece(k) for k in range(len(xs)))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis; composed of expand_dims and concatenate."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("stack: needs at least one tensor")
    try:
        return concatenate([expand_dims(t, axis=axis) for t in tensors], axis=axis)
    except ValueError as error:  # from expand_dims or concatenate
        raise ValueError(f"stack: {str(error).partition(': ')[2]}") from error


def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """x cut along `axis` into `sizes` equal parts (an int), or into parts of the given sizes.

    Raises: ValueError if the sizes do not add up to the size of the axis.
    """
    axis = normalize_axis_index(operator.index(axis), x.ndim, "split")
    n = x.shape[axis]
    if np.ndim(sizes) == 0:
        parts = operator.index(sizes)  # type: ignore[arg-type]
        if parts < 1 or n % parts:
            raise ValueError(
                f"split: sizes must add up to {n}, the size of axis {axis}, and {parts} equal "
                "parts do not; give a list of sizes"
            )
        sizes = [n // parts] * parts
    try:
        sizes = [operator.index(size) for size in sizes]  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"split: sizes must be whole numbers; got {sizes}") from None
    if sum(sizes) != n or any(s < 0 for s in sizes):
        raise ValueError(f"split: sizes must add up to {n}, the size of axis {axis}; got {sizes}")
    before = (slice(None),) * axis
    pieces, start = [], 0
    for size in sizes:
        pieces.append(x[(*before, slice(start, start + size))])
        start += size
    return pieces
