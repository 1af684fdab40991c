"""Chapter 3: operations, one function each: value, gradient, equation.

A tensor that remembers (chapter 2) needs something to remember. Each function in this folder
computes its value and says beside it how a gradient g = ∂loss/∂y of its result turns into the
gradients of its inputs. This first file has what a pocket calculator has. Shapes broadcast as in
NumPy; the decorator sums the gradients back. Next: functions of one number.
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


def identity(g: Array) -> Array:
    """The gradient goes through unchanged."""
    return g


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
    """The opposite number.

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
    return y, (lambda g: g / b, lambda g: -g * y / b)


@op
def power(xp: Any, a: Array, b: Array) -> Any:
    """a to the power b, element by element.

    Forward:  y = aᵇ
    Backward: da = g·b·aᵇ⁻¹ (0 where b = 0), db = g·y·ln a (0 where a = 0)
    Shapes:   a, b broadcast to y
    Raises:   a negative a with a fractional b gives NaN, as in NumPy
    """
    y = _power(xp, a, b)

    def da(g: Array) -> Array:
        if isinstance(b, (int, float)):
            return g * b * _power(xp, a, b - 1) if b else xp.zeros_like(y)
        return g * b * _power(xp, a, xp.where(b == 0, 1, b - 1))  # 0·a⁻¹ would be NaN at a = 0

    def db(g: Array) -> Array:
        base = xp.asarray(a, dtype=y.dtype)
        return g * y * xp.log(xp.where(base == 0, 1, base))

    return y, (da, db)


def _power(xp: Any, a: Array, b: Array) -> Array:
    """Small whole powers as products: xp.power is some hundred times slower in float32."""
    if isinstance(b, (int, float)) and b in (1, 2, 3):
        return xp.multiply(a, 1) if b == 1 else a * a if b == 2 else a * a * a
    return xp.power(a, b)
