"""Chapter 3, continued: many numbers become one.

`axis` is None (all axes), an integer or a tuple, as in NumPy. The gradient of a reduction is the
gradient of its result handed to every element that took part, times what that element counted.
Next: operations that move numbers without changing them.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op

Axis = int | tuple[int, ...] | None


def spread(g: Array, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Array:
    """g, the gradient of a reduction, with the reduced axes of `shape` back in place as size 1."""
    ndim = len(shape)
    if keepdims or g.ndim == ndim:
        return g
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    reduced = {a % ndim for a in axes}
    return g.reshape(tuple(1 if i in reduced else n for i, n in enumerate(shape)))


def count(x: Array, axis: Axis) -> int:
    """How many elements of x go into each result."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return math.prod(x.shape[a] for a in axes)


def _not_empty(name: str, x: Array, axis: Axis) -> int:
    n = count(x, axis)
    if n == 0:
        raise ValueError(f"{name}: needs at least one element; got shape {x.shape}, axis {axis}")
    return n


@op
def sum(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The sum.

    Forward:  y = Σ x
    Backward: dx = g
    Shapes:   y is x without the axes `axis` (of size 1 with keepdims)
    """
    shape = x.shape  # all that the vjp keeps
    y = x.sum(axis=axis, keepdims=keepdims)
    return y, (lambda g: xp.broadcast_to(spread(g, shape, axis, keepdims), shape),)


@op
def mean(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The mean.

    Forward:  y = 1/n Σ x
    Backward: dx = g/n
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the mean of nothing
    """
    n, shape = _not_empty("mean", x, axis), x.shape
    y = x.mean(axis=axis, keepdims=keepdims)
    return y, (lambda g: xp.broadcast_to(spread(g / n, shape, axis, keepdims), shape),)


def _extreme(xp: Any, x: Array, y: Array, axis: Axis, keepdims: bool) -> Any:
    """max and min share their gradient: equal parts to all who attain the extreme."""

    def dx(g: Array) -> Array:
        attains = (x == spread(y, x.shape, axis, keepdims)).astype(x.dtype)
        sharers = attains.sum(axis=axis, keepdims=True)
        return attains / sharers * spread(g, x.shape, axis, keepdims)

    return y, (dx,)


@op
def max(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element.

    Forward:  y = max x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the maximum of nothing
    """
    _not_empty("max", x, axis)
    return _extreme(xp, x, x.max(axis=axis, keepdims=keepdims), axis, keepdims)


@op
def min(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element.

    Forward:  y = min x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the minimum of nothing
    """
    _not_empty("min", x, axis)
    return _extreme(xp, x, x.min(axis=axis, keepdims=keepdims), axis, keepdims)


def _centred(x: Array, axis: Axis) -> Array:
    """x less its mean; twice, since a mean is rounded: three times 0.1 has the mean 0.1 + 2⁻⁵⁶."""
    centred = x - x.mean(axis=axis, keepdims=True)
    centred -= centred.mean(axis=axis, keepdims=True)
    return centred


@op
def var(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The variance of a whole population (divided by n, as layer norm wants it).

    Forward:  y = 1/n Σ (x - m)², m the mean of x
    Backward: dx = g·2/n·(x - m)
    Shapes:   y is x without the axes `axis`
    Units:    those of x, squared
    Raises:   ValueError for the variance of nothing
    """
    n = _not_empty("var", x, axis)
    centred = _centred(x, axis)
    y = (centred * centred).mean(axis=axis, keepdims=keepdims)
    return y, (lambda g: spread(g, x.shape, axis, keepdims) * centred * (2 / n),)


@op
def std(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The standard deviation of a whole population.

    Forward:  y = √(1/n Σ (x - m)²), m the mean of x
    Backward: dx = g·(x - m)/(n·y), and 0 where y = 0, the middle of all slopes there
    Shapes:   y is x without the axes `axis`
    Units:    those of x
    Raises:   ValueError for the deviation of nothing
    """
    n = _not_empty("std", x, axis)
    centred = _centred(x, axis)
    y = xp.sqrt((centred * centred).mean(axis=axis, keepdims=keepdims))
    return y, (lambda g: centred * _ratio(xp, spread(g, x.shape, axis, keepdims),
                                          spread(y, x.shape, axis, keepdims) * n),)  # fmt: skip


@op
def norm(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The Euclidean length.

    Forward:  y = √(Σ x²)
    Backward: dx = g·x/y, and 0 where y = 0, the middle of all slopes there
    Shapes:   y is x without the axes `axis`
    Units:    those of x
    """
    y = xp.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
    return y, (lambda g: x * _ratio(xp, spread(g, x.shape, axis, keepdims),
                                    spread(y, x.shape, axis, keepdims)),)  # fmt: skip


def _ratio(xp: Any, a: Array, b: Array) -> Array:
    """a/b, and 0 where b = 0."""
    return xp.where(b == 0, 0, a) / xp.where(b == 0, 1, b)


@op
def cumsum(xp: Any, x: Array, *, axis: int = -1) -> Any:
    """The running sum along an axis.

    Forward:  y_i = Σ_{j ≤ i} x_j
    Backward: dx_j = Σ_{i ≥ j} g_i
    Shapes:   y as x
    """
    return xp.cumsum(x, axis=axis), (
        lambda g: xp.flip(xp.cumsum(xp.flip(g, axis), axis=axis), axis),
    )


@op
def logsumexp(xp: Any, x: Array, *, axis: Axis = -1, keepdims: bool = False) -> Any:
    """The logarithm of a sum of exponentials: a maximum with soft edges.

    Forward:  y = m + ln Σ exp(x - m), m = max x
    Backward: dx = g·exp(x - y)
    Shapes:   y is x without the axes `axis`
    Units:    nats
    Raises:   ValueError for the sum of nothing, whose logarithm is -∞
    """
    _not_empty("logsumexp", x, axis)
    m = x.max(axis=axis, keepdims=True)
    m = xp.where(xp.isfinite(m), m, 0)  # all of x is -∞: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    total = xp.exp(x - m).sum(axis=axis, keepdims=True)
    y = xp.where(total == 0, -math.inf, xp.log(xp.where(total == 0, 1, total)) + m)

    def dx(g: Array) -> Array:
        return spread(g, x.shape, axis, keepdims) * xp.exp(x - xp.where(total == 0, 0, y))

    return y if keepdims else xp.squeeze(y, axis=axis), (dx,)
