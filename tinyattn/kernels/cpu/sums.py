"""Engine room, CPU: sums of very many elements.

A float32 has 24 bits, so 16,777,216 + 1 is 16,777,216: a sum of ones, added one by one, stops
there. NumPy adds the elements of a row by halves (pairwise summation), which stays accurate much
longer, but it adds rows to one another one by one. So here a long sum is divided into pieces, and
then the sums of the pieces are added. Shorter sums are left to NumPy, so nothing becomes slower.

The BLAS decides in which order a matrix product adds; `einsum` and indices on several axes add one
by one. Over more than ten million rows these may lose some of the elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tinyattn.backend import Array, is_array
from tinyattn.kernels.register import kernel

PIECE = 4096
"""Elements added one by one, or nearly so, at most: the rounding errors stay below 2⁻¹²."""


@kernel("sum_over", "cpu")
def sum_over(xp: Any, x: Array, axis: Any, *, keepdims: bool = False) -> Array:
    """`op.sum_over` in pieces, where NumPy would add very many elements one by one."""
    if x.size <= PIECE:
        return x.sum(axis=axis, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    last_ones = axes == tuple(range(x.ndim - len(axes), x.ndim))
    by_halves = last_ones and x.flags.c_contiguous
    if count <= PIECE or by_halves:
        return x.sum(axis=axes, keepdims=keepdims)
    longest = max(axes, key=lambda a: x.shape[a])
    step = max(1, PIECE * x.shape[longest] // count)
    before = (slice(None),) * longest
    pieces = [x[(*before, slice(start, start + step))].sum(axis=axes, keepdims=True)
              for start in range(0, x.shape[longest], step)]  # fmt: skip
    return sum_over(xp, np.concatenate(pieces, axis=longest), axes, keepdims=keepdims)


def sum_rows(x: Array) -> Array:
    """The sum of the rows, as matrix products with ones: faster than a sum over the first axis.

    Shapes: x (N, M) -> (M,)
    """
    if len(x) <= PIECE:
        return np.matmul(np.ones(len(x), dtype=x.dtype), x)
    ones = np.ones(PIECE, dtype=x.dtype)
    pieces = (x[start : start + PIECE] for start in range(0, len(x), PIECE))
    return sum_rows(np.stack([ones[: len(piece)] @ piece for piece in pieces]))


@kernel("running_sum", "cpu")
def running_sum(xp: Any, x: Array, axis: int) -> Array:
    """`ops.reduce.running_sum` in pieces; each piece starts from the sum of those before it."""
    if x.shape[axis] <= PIECE:
        return np.cumsum(x, axis=axis)
    out = np.empty_like(x)
    into, of = np.moveaxis(out, axis, 0), np.moveaxis(x, axis, 0)
    for start in range(0, len(of), PIECE):
        piece = into[start : start + PIECE]
        np.cumsum(of[start : start + PIECE], axis=0, out=piece)
        if start:
            piece += into[start - 1]
    return out


def _why_not(xp: Any, target: Array, index: Any, values: Array) -> str:
    """Needs one array of integers with one axis, not empty, that indexes the first axis."""
    one = len(index) == 1 if isinstance(index, tuple) else True
    index = index[0] if isinstance(index, tuple) and one else index
    if not (one and is_array(index) and index.dtype.kind in "iu"):
        return "not one array of integers"
    return "" if index.ndim == 1 and len(index) else "not one axis"


@kernel("add_at", "cpu", _why_not)
def add_at(xp: Any, target: Array, index: Any, values: Array) -> None:
    """`ops.indexing.add_at`: values are sorted by index, those of equal index are summed, and the
    sums are added. This is faster than one by one, and NumPy's `reduceat` adds by halves."""
    if isinstance(index, tuple):
        (index,) = index
    if index.min() < -len(target) or index.max() >= len(target):
        raise IndexError(
            f"index must lie in {-len(target)}..{len(target) - 1}; got {index.min()}..{index.max()}"
        )
    values = np.broadcast_to(values, (len(index), *target.shape[1:]))
    index = index % len(target)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)
