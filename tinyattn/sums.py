"""Chapter 1, continued: sums of very many numbers.

A float32 has 24 bits, so 16,777,216 + 1 is 16,777,216: whoever counts ones one by one stops there.
NumPy adds the numbers of a row by halves, which goes much further, but rows to one another one by
one. So what is long is added here in pieces, and then the pieces' sums. Up to a piece nothing
changes, and nothing is slower.

How a product of matrices adds is up to the BLAS; `einsum` and indices on several axes add one by
one. Over more than ten million rows these may miss some. Next: names (names.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, array_module, is_array

PIECE = 4096
"""Numbers that are added one by one at most, or nearly: their rounding errors stay below 2⁻¹²."""


def sum_over(x: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> Array:
    """The sum over some axes, each named once and counted from 0.

    Shapes: x without `axes`, which are of size 1 with keepdims.
    """
    count = math.prod(x.shape[a] for a in axes)
    last_ones = axes == tuple(range(x.ndim - len(axes), x.ndim))
    by_halves = last_ones and x.flags.c_contiguous
    if count <= PIECE or by_halves or not isinstance(x, np.ndarray):  # a GPU adds by halves too
        return x.sum(axis=axes, keepdims=keepdims)
    longest = max(axes, key=lambda a: x.shape[a])
    step = max(1, PIECE * x.shape[longest] // count)
    before = (slice(None),) * longest
    pieces = [x[(*before, slice(start, start + step))].sum(axis=axes, keepdims=True)
              for start in range(0, x.shape[longest], step)]  # fmt: skip
    return sum_over(np.concatenate(pieces, axis=longest), axes, keepdims=keepdims)


def sum_rows(x: Array) -> Array:
    """The sum of the rows, as products with ones: faster than a sum over the first axis.

    Shapes: x (N, M) -> (M,)
    """
    xp = array_module(x)
    if len(x) <= PIECE or not isinstance(x, np.ndarray):
        return xp.matmul(xp.ones(len(x), dtype=x.dtype), x)
    ones = np.ones(PIECE, dtype=x.dtype)
    pieces = (x[start : start + PIECE] for start in range(0, len(x), PIECE))
    return sum_rows(np.stack([ones[: len(piece)] @ piece for piece in pieces]))


def running_sum(x: Array, axis: int) -> Array:
    """The sum of everything up to each place along an axis. Shapes: as x."""
    xp = array_module(x)
    if x.shape[axis] <= PIECE or not isinstance(x, np.ndarray):
        return xp.cumsum(x, axis=axis)
    out = np.empty_like(x)
    into, of = np.moveaxis(out, axis, 0), np.moveaxis(x, axis, 0)
    for start in range(0, len(of), PIECE):
        piece = into[start : start + PIECE]
        np.cumsum(of[start : start + PIECE], axis=0, out=piece)
        if start:
            piece += into[start - 1]
    return out


def scatter_add(target: Array, index: Any, values: Array) -> None:
    """target[index] += values, where an index that occurs k times receives all k values.

    Plain `target[index] += values` keeps only one write per repeated index, on NumPy and CuPy.
    On a GPU the order of the additions is not fixed, so the last bits may differ between runs.

    Args: index: integers as wide as NumPy's indices, or what else NumPy takes as an index.
    Raises: IndexError for an index out of range.
    """
    xp = array_module(target)
    if isinstance(index, tuple) and len(index) == 1:
        (index,) = index
    if xp is np and is_array(index) and index.dtype.kind in "iu" and index.ndim == 1 and len(index):
        if index.min() < -len(target) or index.max() >= len(target):
            raise IndexError(
                f"index must lie in {-len(target)}..{len(target) - 1}; got {index.min()}.."
                f"{index.max()}"
            )
        values = np.broadcast_to(values, (len(index), *target.shape[1:]))
        _add_rows(target, index % len(target), values)
    else:
        xp.add.at(target, index, values)


def _add_rows(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Sort the values by index, sum each run of equals, add the sums: faster than one by one.

    NumPy's `reduceat` adds a run by halves.
    """
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)
