"""Chapter 6: reductions, such as sum, mean, max and norm.

`axis` is None (all axes), an integer or a tuple, as in NumPy. Each element gets the gradient of the
result, multiplied by the derivative of the result with respect to this element. Squares overflow,
or become 0, for numbers that are far from the limits of their dtype. So before a reduction squares
its elements, it divides them by a power of two of about their size.
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

    Args: name: the operation's name, for error messages.
    Raises: ValueError for an axis that does not exist or occurs twice; TypeError for another type.
    """
    named = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not shape and named in ((0,), (-1,)):
        return ()  # NumPy allows these for a scalar
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
    """The number of elements that form each result. Raises: ValueError if it is 0."""
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
    Raises:   ValueError if there are no elements
    """
    shape, axes = x.shape, axes_of("mean", x.shape, axis)
    n = count("mean", shape, axes)
    y = sum_over(xp, x, axes, keepdims=keepdims) / n
    return y, (lambda g: xp.broadcast_to(spread(g / n, shape, axes), shape),)


def _extreme(name: str, xp: Any, x: Array, axis: Axis, keepdims: bool) -> Any:
    """max or min. All elements that equal the result get equal parts of its gradient."""
    axes = axes_of(name, x.shape, axis)
    count(name, x.shape, axes)
    y = getattr(x, name)(axis=axes, keepdims=keepdims)

    def dx(g: Array) -> Array:
        equal = x == spread(y, x.shape, axes)
        ties = equal.sum(axis=axes, keepdims=True).astype(x.dtype)
        # If an element is NaN, so is y, and no element equals it.
        return xp.where(equal, spread(g, x.shape, axes) / xp.maximum(ties, 1), 0)

    return y, (dx,)


@op
def max(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element.

    Forward:  y = max x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError if there are no elements
    """
    return _extreme("max", xp, x, axis, keepdims)


@op
def min(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element.

    Forward:  y = min x
    Backward: dx = g/k for the k elements that equal y, else 0
    Shapes:   y is x without the axes `axis`
    Raises:   ValueError if there are no elements
    """
    return _extreme("min", xp, x, axis, keepdims)


def unit_of(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """A power of two u, m/2 < u ≤ m for the largest |x| = m along `axes`; 1 if m is 0, ∞ or NaN.

    The quotient x/u is exact, and the sum of its squares neither overflows nor underflows.
    Shapes: x with `axes` as size 1
    """
    if not x.size:
        return x.dtype.type(1)
    largest = xp.abs(x).max(axis=axes, keepdims=True)
    ordinary = (largest > 0) & xp.isfinite(largest)
    _, exponent = xp.frexp(xp.where(ordinary, largest, 1))
    return xp.ldexp(xp.ones_like(largest), exponent - 1)


def _centred(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """x - mean, twice, since a mean is rounded: that of 0.1, 0.1 and 0.1 is 0.1 + 2⁻⁵⁶."""
    n = math.prod(x.shape[a] for a in axes)
    centred = x - sum_over(xp, x, axes, keepdims=True) / n
    centred -= sum_over(xp, centred, axes, keepdims=True) / n
    return centred


@op
def var(xp: Any, x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The population variance (divided by n, as layer norm needs it).

    Forward:  y = 1/n Σ (x - m)², m the mean of x
    Backward: dx = g·2/n·(x - m)
    Shapes:   y is x without the axes `axis`
    Units:    those of x, squared
    Raises:   ValueError if there are no elements
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
    """The population standard deviation (divided by n).

    Forward:  y = √(1/n Σ (x - m)²), m the mean of x
    Backward: dx = g·(x - m)/(n·y), and 0 where y = 0, which is a subgradient there
    Shapes:   y is x without the axes `axis`
    Units:    those of x
    Raises:   ValueError if there are no elements
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
    """The Euclidean norm.

    Forward:  y = √(Σ x²)
    Backward: dx = g·x/y, and 0 where y = 0, which is a subgradient there
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
    """The cumulative sum along an axis. Shapes: as x."""
    return xp.cumsum(x, axis=axis)


@op
def cumsum(xp: Any, x: Array, *, axis: int | None = -1) -> Any:
    """The cumulative sum along an axis; for None, of all elements in order, as in NumPy.

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
    """The logarithm of a sum of exponentials: a smooth maximum.

    Forward:  y = m + ln Σ exp(x - m), m = max x
    Backward: dx = g·exp(x - m)/Σ exp(x - m)
    Shapes:   y is x without the axes `axis`
    Units:    nats
    Raises:   ValueError if there are no elements
    """
    axes = axes_of("logsumexp", x.shape, axis)
    count("logsumexp", x.shape, axes)
    m = x.max(axis=axes, keepdims=True)
    m = xp.where(xp.isfinite(m), m, 0)  # if all of x is -∞: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    e = xp.exp(x - m)
    total = sum_over(xp, e, axes, keepdims=True)
    something = xp.where(total == 0, 1, total)
    y = xp.where(total == 0, -math.inf, xp.log(something) + m)
    return y if keepdims else xp.squeeze(y, axis=axes), (
        lambda g: spread(g, x.shape, axes) * (e / something),
    )
