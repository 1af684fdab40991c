"""Chapter 6: many numbers become one.

`axis` is None (all axes), an integer or a tuple, as in NumPy. The gradient of a reduction is the
gradient of its result handed to every element that took part, times what that element counted.
Squares overflow, or vanish, long before their root does: so where there are squares, numbers are
first divided by a power of two that is about as large as they are.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.dispatch import dispatched
from tinyattn.op import op, sum_over

Axis = int | tuple[int, ...] | None


def axes_of(name: str, shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The axes that `axis` names, counted from 0, in order.

    Args: name: of the op, for messages.
    Raises: ValueError for an axis that is not there, or that is named twice.
    """
    named = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not shape and named in ((0,), (-1,)):
        return ()  # a number counts as a row of one, as in NumPy
    for a in named:
        if not isinstance(a, int):
            raise TypeError(f"{name}: axis must be None, a whole number or a tuple; got {axis!r}")
        if not -len(shape) <= a < len(shape):
            raise ValueError(f"{name}: axis {a} is out of bounds for the {len(shape)} axes of "
                             f"shape {shape}")  # fmt: skip
    axes = sorted(a % len(shape) for a in named)
    if len({*axes}) < len(axes):
        raise ValueError(f"{name}: an axis is named twice in {axis}, for shape {shape}")
    return tuple(axes)


def spread(g: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """g, the gradient of a reduction, with the reduced axes of `shape` as size 1."""
    return g.reshape(tuple(1 if a in axes else n for a, n in enumerate(shape)))


def count(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """How many elements go into each result. Raises: ValueError for none."""
    n = math.prod(shape[a] for a in axes)
    if n == 0:
        raise ValueError(f"{name}: needs at least one element; got shape {shape}, axes {axes}")
    return n


@op
def sum(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The sum.

    Forward:  y = Σ x
    Backward: dx = g
    Shapes:   y is x without the axes `axis` (of size 1 with keepdims)
    """
    shape, axes = x.shape, axes_of("sum", x.shape, axis)  # all that the vjp keeps
    y = sum_over(xp, x, axes, keepdims=keepdims)
    return y, (lambda g: xp.broadcast_to(spread(g, shape, axes), shape),)


@op
def mean(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The mean.

    Forward:  y = 1/n Σ x
    Backward: dx = g/n
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the mean of nothing
    """
    shape, axes = x.shape, axes_of("mean", x.shape, axis)
    n = count("mean", shape, axes)
    y = sum_over(xp, x, axes, keepdims=keepdims) / n
    return y, (lambda g: xp.broadcast_to(spread(g / n, shape, axes), shape),)


def _extreme(name: str, xp: Any, x: Array, axis: Axis, keepdims: bool) -> Any:
    """max and min share their gradient: equal parts to all who attain the extreme."""
    axes = axes_of(name, x.shape, axis)
    count(name, x.shape, axes)
    y = getattr(x, name)(axis=axes, keepdims=keepdims)

    def dx(g: Array) -> Array:
        attains = x == spread(y, x.shape, axes)
        sharers = attains.sum(axis=axes, keepdims=True).astype(x.dtype)
        # Beside a NaN nobody attains it.
        return xp.where(attains, spread(g, x.shape, axes) / xp.maximum(sharers, 1), 0)

    return y, (dx,)


@op
def max(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element.

    Forward:  y = max x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the maximum of nothing
    """
    return _extreme("max", xp, x, axis, keepdims)


@op
def min(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element.

    Forward:  y = min x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError for the minimum of nothing
    """
    return _extreme("min", xp, x, axis, keepdims)


def unit_of(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """A power of two between half the largest |x| along `axes`, and that; 1 where x is 0, ∞ or NaN.

    x divided by it is exact, and the squares of that neither overflow nor vanish.
    Shapes: x with `axes` as size 1
    """
    if not x.size:
        return x.dtype.type(1)
    largest = xp.abs(x).max(axis=axes, keepdims=True)
    ordinary = (largest > 0) & xp.isfinite(largest)
    _, exponent = xp.frexp(xp.where(ordinary, largest, 1))
    return xp.ldexp(xp.ones_like(largest), exponent - 1)


def _centred(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """x less its mean; twice, since a mean is rounded: three times 0.1 has the mean 0.1 + 2⁻⁵⁶."""
    n = math.prod(x.shape[a] for a in axes)
    centred = x - sum_over(xp, x, axes, keepdims=True) / n
    centred -= sum_over(xp, centred, axes, keepdims=True) / n
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
    axes = axes_of("var", x.shape, axis)
    n, unit = count("var", x.shape, axes), unit_of(xp, x, axes)
    centred = _centred(xp, x / unit, axes)
    y = sum_over(xp, centred * centred, axes, keepdims=True) / n * unit * unit
    centred *= unit
    return y if keepdims else xp.squeeze(y, axis=axes), (
        lambda g: spread(g, x.shape, axes) * centred * (2 / n),
    )


@op
def std(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The standard deviation of a whole population.

    Forward:  y = √(1/n Σ (x - m)²), m the mean of x
    Backward: dx = g·(x - m)/(n·y), and 0 where y = 0, the middle of all slopes there
    Shapes:   y is x without the axes `axis`
    Units:    those of x
    Raises:   ValueError for the deviation of nothing
    """
    axes = axes_of("std", x.shape, axis)
    n, unit = count("std", x.shape, axes), unit_of(xp, x, axes)
    centred = _centred(xp, x / unit, axes)
    root = xp.sqrt(sum_over(xp, centred * centred, axes, keepdims=True) / n)
    y = root * unit
    return y if keepdims else xp.squeeze(y, axis=axes), (
        lambda g: centred * _ratio(xp, spread(g, x.shape, axes), root * n),
    )


@op
def norm(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The Euclidean length.

    Forward:  y = √(Σ x²)
    Backward: dx = g·x/y, and 0 where y = 0, the middle of all slopes there
    Shapes:   y is x without the axes `axis`
    Units:    those of x
    """
    axes = axes_of("norm", x.shape, axis)
    unit = unit_of(xp, x, axes)
    part = x / unit
    root = xp.sqrt(sum_over(xp, part * part, axes, keepdims=True))
    y = root * unit
    return y if keepdims else xp.squeeze(y, axis=axes), (
        lambda g: part * _ratio(xp, spread(g, x.shape, axes), root),
    )


def _ratio(xp: Any, a: Array, b: Array) -> Array:
    """a/b, and 0 where b = 0."""
    return xp.where(b == 0, 0, a) / xp.where(b == 0, 1, b)


@dispatched
def running_sum(xp: Any, x: Array, axis: int) -> Array:
    """The sum of everything up to each place along an axis. Shapes: as x."""
    return xp.cumsum(x, axis=axis)


@op
def cumsum(xp: Any, x: Array, *, axis: int | None = -1) -> Any:
    """The running sum along an axis; for None, of all elements in a row, as in NumPy.

    Forward:  y_i = Σ_{j ≤ i} x_j
    Backward: dx_j = Σ_{i ≥ j} g_i
    Shapes:   y as x; for None (N,)
    """
    if isinstance(axis, tuple):
        raise TypeError(f"cumsum: axis must be one whole number, or None; got {axis}")
    axes_of("cumsum", x.shape, axis)
    flat = x.reshape(-1) if axis is None or x.ndim == 0 else x
    along = -1 if axis is None else axis
    y = running_sum(xp, flat, along)

    def dx(g: Array) -> Array:
        back = xp.flip(running_sum(xp, xp.flip(g.reshape(y.shape), along), along), along)
        return back.reshape(x.shape)

    return y if axis is None else y.reshape(x.shape), (dx,)


@op
def logsumexp(xp: Any, x: Array, *, axis: Axis = -1, keepdims: bool = False) -> Any:
    """The logarithm of a sum of exponentials: a maximum with soft edges.

    Forward:  y = m + ln Σ exp(x - m), m = max x
    Backward: dx = g·exp(x - m)/Σ exp(x - m)
    Shapes:   y is x without the axes `axis`
    Units:    nats
    Raises:   ValueError for the sum of nothing, whose logarithm is -∞
    """
    axes = axes_of("logsumexp", x.shape, axis)
    count("logsumexp", x.shape, axes)
    m = x.max(axis=axes, keepdims=True)
    m = xp.where(xp.isfinite(m), m, 0)  # all of x is -∞: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    e = xp.exp(x - m)
    total = sum_over(xp, e, axes, keepdims=True)
    something = xp.where(total == 0, 1, total)
    y = xp.where(total == 0, -math.inf, xp.log(something) + m)
    return y if keepdims else xp.squeeze(y, axis=axes), (
        lambda g: spread(g, x.shape, axes) * (e / something),
    )
