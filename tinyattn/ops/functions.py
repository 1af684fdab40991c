"""Chapter 6: functions of one number, applied to every element.

The derivatives of exp and sqrt are simpler in terms of the result than of the input. There the vjp
keeps the result: one array instead of two. A value near 0 is not computed as 1 - something: such a
difference would keep few correct digits, or none.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array, device_of
from tinyattn.op import op
from tinyattn.ops.arithmetic import where_used


@op
def exp(xp: Any, x: Array) -> Any:
    """The exponential function.

    Forward:  y = eˣ
    Backward: dx = g·y
    Shapes:   y as x
    Units:    x nats -> y ratio
    """
    y = xp.exp(x)
    return y, (lambda g: g * where_used(xp, g, y),)


@op
def log(xp: Any, x: Array) -> Any:
    """The natural logarithm.

    Forward:  y = ln x
    Backward: dx = g/x
    Shapes:   y as x
    Units:    x ratio -> y nats
    """
    return xp.log(x), (lambda g: g / where_used(xp, g, x),)


@op
def sqrt(xp: Any, x: Array) -> Any:
    """The square root. Its slope at 0 is infinite; `norm` and `std` avoid that.

    Forward:  y = √x
    Backward: dx = g/(2y)
    Shapes:   y as x
    """
    y = xp.sqrt(x)
    return y, (lambda g: g / where_used(xp, g, y + y),)


@op
def tanh(xp: Any, x: Array) -> Any:
    """The hyperbolic tangent: a smooth sign function.

    Forward:  y = (eˣ - e⁻ˣ)/(eˣ + e⁻ˣ)
    Backward: dx = g·4s(1 - s), s = σ(2x); that is g·(1 - y²), but exact where y is near ±1
    Shapes:   y as x
    """

    def dx(g: Array) -> Array:
        near = xp.clip(x, -400, 400)  # 2x may be ∞; beyond ±400 the slope is 0
        _, slope = _logistic(xp, near + near)
        return g * where_used(xp, g, 4 * slope)

    return xp.tanh(x), (dx,)


@op
def sigmoid(xp: Any, x: Array) -> Any:
    """The logistic function: the probability whose log-odds are x.

    Forward:  y = 1/(1 + e⁻ˣ), for x < 0 computed as eˣ/(1 + eˣ), so that nothing overflows
    Backward: dx = g·y·(1 - y) = g·e/(1 + e)², e = e^-|x|
    Shapes:   y as x
    Units:    x nats (log-odds) -> y probability
    """
    y, slope = _logistic(xp, x)
    return y, (lambda g: g * where_used(xp, g, slope),)


def _logistic(xp: Any, x: Array) -> tuple[Array, Array]:
    """σ(x) = 1/(1 + e⁻ˣ) and its slope, both exact near 0 and near 1."""
    e = xp.exp(-xp.abs(x))
    y = xp.where(x < 0, e, 1) / (1 + e)
    return y, e / (1 + e) ** 2


@op
def erf(xp: Any, x: Array) -> Any:
    """The error function: P(|Z| < x√2) for a standard normal Z and x > 0.

    Forward:  y = 2/√π ∫₀ˣ exp(-t²) dt
    Backward: dx = g·2/√π·exp(-x²)
    Shapes:   y as x
    """

    def dx(g: Array) -> Array:
        near = xp.clip(x, -40, 40)  # exp(-x²) is 0 beyond ±40
        return g * where_used(xp, g, xp.exp(-near * near) * (2 / math.sqrt(math.pi)))

    return device_of(x).erf(x), (dx,)


@op
def absolute(xp: Any, x: Array) -> Any:
    """The absolute value.

    Forward:  y = |x|
    Backward: dx = g·sign(x), which is 0 at 0
    Shapes:   y as x
    """
    return xp.abs(x), (lambda g: xp.where(x > 0, g, xp.where(x < 0, -g, 0)),)


@op
def relu(xp: Any, x: Array) -> Any:
    """The rectified linear unit (ReLU): negative elements become 0.

    Forward:  y = max(x, 0)
    Backward: dx = g where x > 0, else 0 (also at 0)
    Shapes:   y as x
    """
    return xp.maximum(x, 0), (lambda g: xp.where(x > 0, g, 0),)
