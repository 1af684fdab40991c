"""Chapter 6: arithmetic operations, one function each: value, gradient, equation.

Each function in this folder returns its value y and the functions that turn the gradient
g = ∂loss/∂y into the gradients of its inputs. This file has the operations of a pocket calculator.
Shapes broadcast as in NumPy; the decorator sums the gradients back.

Where a slope is infinite, as that of 1/x at 0, a gradient of 0 stays 0, although 0·∞ is NaN: an
element that the loss does not use contributes nothing. This is not guaranteed for products and sums
of elements that are themselves ∞ or NaN.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


def identity(g: Array) -> Array:
    """The gradient goes through unchanged."""
    return g


def where_used(xp: Any, g: Array, slope: Any) -> Any:
    """`slope`, except 1 where the gradient g, which it multiplies or divides, is 0."""
    return slope if isinstance(slope, (int, float)) else xp.where(g == 0, 1, slope)


@op
def add(xp: Any, a: Array, b: Array) -> Any:
    """The sum of two tensors.

    Forward:  y = a + b
    Backward: da = g, db = g
    Shapes:   a, b broadcast to y
    """
    return xp.add(a, b), (identity, identity)


@op
def subtract(xp: Any, a: Array, b: Array) -> Any:
    """The difference of two tensors.

    Forward:  y = a - b
    Backward: da = g, db = -g
    Shapes:   a, b broadcast to y
    """
    return xp.subtract(a, b), (identity, lambda g: -g)


@op
def negative(xp: Any, x: Array) -> Any:
    """x with the opposite sign.

    Forward:  y = -x
    Backward: dx = -g
    Shapes:   y as x
    """
    return -x, (lambda g: -g,)


@op
def multiply(xp: Any, a: Array, b: Array) -> Any:
    """The product, element by element.

    Forward:  y = a·b
    Backward: da = g·b, db = g·a
    Shapes:   a, b broadcast to y
    """
    return xp.multiply(a, b), (lambda g: g * b, lambda g: g * a)


@op
def divide(xp: Any, a: Array, b: Array) -> Any:
    """The quotient, element by element.

    Forward:  y = a/b
    Backward: da = g/b, db = -g·y/b
    Shapes:   a, b broadcast to y
    """
    y = xp.divide(a, b)
    return y, (lambda g: g / where_used(xp, g, b),
               lambda g: -g * where_used(xp, g, y) / where_used(xp, g, b))  # fmt: skip


@op
def power(xp: Any, a: Array, b: Array) -> Any:
    """a to the power b, element by element.

    Forward:  y = aᵇ
    Backward: da = g·b·aᵇ⁻¹ (0 where b = 0),
              db = g·y·ln a (where a = 0, its limits: 0 for b ≥ 0, -∞ for b < 0)
    Shapes:   a, b broadcast to y
    Raises:   a negative a with a fractional b gives NaN, as in NumPy
    """
    y = _power(xp, a, b)

    def da(g: Array) -> Array:
        if isinstance(b, (int, float)):
            return g * where_used(xp, g, b * _power(xp, a, b - 1)) if b else xp.zeros_like(y)
        g = xp.where(b == 0, 0, g)
        return g * where_used(xp, g, b * _power(xp, a, xp.where(b == 0, 1, b - 1)))

    def db(g: Array) -> Array:
        base = xp.asarray(a, dtype=y.dtype)
        nothing = base == 0
        slope = xp.where(nothing, 1, y) * xp.log(xp.where(nothing, 1, base))
        g = xp.where(nothing & (b >= 0), 0, g)
        return g * where_used(xp, g, xp.where(nothing, -math.inf, slope))

    return y, (da, db)


def _power(xp: Any, a: Array, b: Array) -> Array:
    """a to the power b; 1, 2 and 3 as products: xp.power is about 100 times slower in float32."""
    if isinstance(b, (int, float)) and b in (1, 2, 3):
        return xp.multiply(a, 1) if b == 1 else a * a if b == 2 else a * a * a
    return xp.power(a, b)
