"""Chapter 6: indexing: reading elements, and adding to them.

Reading x[i] and adding to x[i] are each other's gradient. If an index occurs twice, its element is
read twice and must get the sum of both gradients: `add_at` does this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tinyattn.backend import Array, asarray, device_of, is_array
from tinyattn.dispatch import dispatched
from tinyattn.op import Index, op


@dispatched
def add_at(xp: Any, target: Array, index: Any, values: Array) -> None:
    """target[index] += values, where an index that occurs k times receives all k values.

    In NumPy and CuPy, plain `target[index] += values` adds only one value per repeated index. On a
    GPU the order of the additions is not fixed, so the last bits may differ between runs.

    Args: index: integers of the type intp, or another index that NumPy takes.
    Raises: IndexError for an index out of range.
    """
    xp.add.at(target, index, values)


def _on_device(xp: Any, x: Array, index: Any) -> tuple[tuple[Any, ...], bool]:
    """A copy of the index, its lists and host arrays on x's device; and whether it has arrays.

    An index from the host is first tried on the host, with an array of x's shape that needs no
    memory. If it is out of range, NumPy raises IndexError; a GPU would not.
    """
    keys = index if isinstance(index, tuple) else (index,)
    host = tuple(np.asarray(k) if isinstance(k, list) else k for k in keys)
    for key in host:
        if isinstance(key, np.ndarray) and key.dtype == np.uint64 and key.size:
            if key.max() > np.iinfo(np.intp).max:
                raise IndexError(f"index {key.max()} is out of bounds for shape {x.shape}")
    host = tuple(k.astype(np.intp) if is_array(k) and (k.dtype.kind in "iu" or not k.size) else k
                 for k in host)  # fmt: skip
    if xp is not np and all(k is None or k is ... or isinstance(k, (int, slice, np.ndarray))
                            for k in host):  # fmt: skip
        np.broadcast_to(np.False_, x.shape)[host]
    device = device_of(x).name
    own = [k.copy() if is_array(k) else k for k in host]  # the vjp relies on them
    moved = tuple(asarray(k, device=device) if isinstance(k, np.ndarray) else k for k in own)
    return moved, any(is_array(k) for k in moved)


@op
def getitem(xp: Any, x: Array, *, index: Index) -> Any:
    """x[index], with every index that NumPy takes: x[1, ..., None, ::-1], x[[0, 0, -1]], x[mask].

    Forward:  y = x[index]
    Backward: dx = zeros, with g added at `index`, once for each time an element was read
    Shapes:   as NumPy's indexing
    Raises:   IndexError out of range
    """
    keys, advanced = _on_device(xp, x, index)

    def dx(g: Array) -> Array:
        out = xp.zeros_like(x)
        if advanced:
            add_at(xp, out, keys, g)
        else:
            out[keys] = g  # slices and integers select no element twice
        return out

    return x[keys], (dx,)


@op
def take(xp: Any, x: Array, indices: Index, *, axis: int = 0) -> Any:
    """Slices of x along one axis, one for each of `indices`.

    Forward:  y[..., i, ...] = x[..., indices[i], ...]
    Backward: dx[..., j, ...] = Σ of g over all i with indices[i] = j
    Shapes:   x (..., N, ...) and indices (any) -> y (..., any, ...)
    Raises:   IndexError out of range
    """
    axis = normalize_axis_index(axis, x.ndim)
    keys, _ = _on_device(xp, x, ((slice(None),) * axis + (indices,)))

    def dx(g: Array) -> Array:
        out = xp.zeros_like(x)
        moved = tuple(range(axis, axis + keys[-1].ndim))
        g = xp.moveaxis(g, moved, range(len(moved)))  # axes of the indices, then other axes of x
        slices = g.reshape((keys[-1].size, *g.shape[len(moved) :]))
        add_at(xp, xp.moveaxis(out, axis, 0), keys[-1].ravel(), slices)
        return out

    y = xp.take(x, keys[-1], axis=axis)  # x[keys] would have another order in memory
    return y, (dx, None)


def _along(xp: Any, indices: Array, axis: int) -> tuple[Array, ...]:
    """The index tuple that replaces, at each position, the index along `axis` by `indices`."""
    axis = axis % indices.ndim
    return tuple(
        indices if a == axis else xp.arange(n).reshape((-1,) + (1,) * (indices.ndim - a - 1))
        for a, n in enumerate(indices.shape)
    )


@op
def gather(xp: Any, x: Array, indices: Index, *, axis: int = -1) -> Any:
    """One element of x for each index, along one axis: y_ij = x_i,indices[i,j] for axis 1.

    Forward:  y[i, j, ...] = x[i, indices[i, j, ...], ...], with the index at `axis`
    Backward: dx = zeros, with g added to the elements that were read
    Shapes:   indices and y have x's sizes, except along `axis`
    Raises:   ValueError if the sizes along other axes differ; IndexError out of range
    """
    _check_along("gather", x, indices, axis)
    keys, _ = _on_device(xp, x, _along(xp, indices, axis))

    def dx(g: Array) -> Array:
        out = xp.zeros_like(x)
        add_at(xp, out, keys, g)
        return out

    return x[keys], (dx, None)


@op
def scatter_add(xp: Any, x: Array, indices: Index, values: Array, *, axis: int = -1) -> Any:
    """x with each value added to the element that its index gives: the reverse of gather.

    Forward:  y = x, then y[i, indices[i, j, ...], ...] += values[i, j, ...]
    Backward: dx = g, dvalues = the same elements of g
    Shapes:   indices and values have x's sizes, except along `axis`, and one shape; y as x
    Raises:   ValueError if sizes differ; IndexError out of range
    """
    _check_along("scatter_add", x, indices, axis)
    if indices.shape != values.shape:
        raise ValueError(
            f"scatter_add: values must have the shape of indices {indices.shape}; "
            f"got {values.shape}"
        )
    keys, _ = _on_device(xp, x, _along(xp, indices, axis))
    y = x.copy()
    add_at(xp, y, keys, values)
    return y, (lambda g: g, None, lambda g: g[keys])


def _check_along(name: str, x: Array, indices: Array, axis: int) -> None:
    axis = normalize_axis_index(axis, x.ndim)
    sizes = [n for a, n in enumerate(indices.shape) if a != axis]
    if indices.ndim != x.ndim or sizes != [n for a, n in enumerate(x.shape) if a != axis]:
        raise ValueError(
            f"{name}: indices must have x's shape {x.shape} except along axis {axis}; "
            f"got {indices.shape}"
        )
