"""Chapter 3, continued: functions of one number, applied to every element.

Where the derivative is easier to say with the result than with the input (exp, sqrt), the vjp
closes over the result: one array kept instead of two. What comes near 0 is not computed as
1 - something, which would keep few of its digits, or none. Next: operations that choose between
numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn import backend
from tinyattn.backend import Array
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
    """The hyperbolic tangent: a sign function with a soft middle.

    Forward:  y = (eˣ - e⁻ˣ)/(eˣ + e⁻ˣ)
    Backward: dx = g·4s(1 - s), s = σ(2x); that is g·(1 - y²), but exact where y is near ±1
    Shapes:   y as x
    """

    def dx(g: Array) -> Array:
        near = xp.clip(x, -400, 400)  # 2x may be ∞, and this far out the slope is 0
        _, slope = _logistic(xp, near + near)
        return g * where_used(xp, g, 4 * slope)

    return xp.tanh(x), (dx,)


@op
def sigmoid(xp: Any, x: Array) -> Any:
    """The logistic function: the probability whose log-odds are x.

    Forward:  y = 1/(1 + e⁻ˣ), or for x < 0 the same number as eˣ/(1 + eˣ): neither overflows
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
    if x.dtype == xp.float32:
        near = xp.clip(x * math.sqrt(2), -FAR, FAR)
        y = xp.tanh(_half_log_odds(near, near * near))
    else:
        y = backend.erf(x)

    def dx(g: Array) -> Array:
        near = xp.clip(x, -40, 40)  # its square goes into an exponential, which is 0 from there on
        return g * where_used(xp, g, xp.exp(-near * near) * (2 / math.sqrt(math.pi)))

    return y, (dx,)


FAR = 6.0
"""Beyond this, Φ is 0 or 1 in float32, to the last bit."""

# Φ(x) ≈ (1 + tanh(x·P(x²)))/2 on |x| ≤ 6. The coefficients of P, highest first: a least-squares
# fit on 1,500 Chebyshev nodes, reweighted until the largest errors of 2Φ - 1 were equal, 6e-8;
# with the rounding of float32, 1.4e-7.
_CDF = (1.756280676e-09, -1.322663602e-07, 3.964773739e-06, -5.530631752e-05, -3.259474919e-05,
        3.633308442e-02, 7.978849415e-01)  # fmt: skip


def _half_log_odds(x: Array, square: Array) -> Array:
    """atanh(2Φ(x) - 1), half the log-odds of a standard normal being below x; |x| ≤ 6."""
    y = square * _CDF[0]
    for coefficient in _CDF[1:-1]:  # Horner's rule, in place
        y += coefficient
        y *= square
    y += _CDF[-1]
    y *= x
    return y


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
    """The rectifier: what is negative becomes 0.

    Forward:  y = max(x, 0)
    Backward: dx = g where x > 0, else 0 (also at 0)
    Shapes:   y as x
    """
    return xp.maximum(x, 0), (lambda g: xp.where(x > 0, g, 0),)


@op
def gelu(xp: Any, x: Array, *, exact: bool = True) -> Any:
    """Gaussian error linear unit: x times the probability that a standard normal is below x.

    Forward:  exact: y = x·Φ(x), Φ(x) = (1 + erf(x/√2))/2
              else:  y = x·s,    s = (1 + tanh(√(2/π)(x + 0.044715x³)))/2, within 5e-4 of exact
    Backward: exact: dx = g·(Φ + x·φ), φ(x) = exp(-x²/2)/√(2π)
              else:  dx = g·(s + 2x·s(1 - s)·√(2/π)(1 + 3·0.044715x²))
    Shapes:   y as x
    Source:   Hendrycks and Gimpel 2016, section 2

    The derivative is computed on the way forward, while its ingredients are in the cache: the
    backward pass is then a single product.
    """
    y, slope = (xp.empty(x.shape, dtype=x.dtype) for _ in range(2))  # C order: flat is a view
    flat_x, flat_y, flat_slope = (a.reshape(-1) for a in (x, y, slope))
    formula = _gelu_exact if exact else _gelu_tanh
    # Half a tile each: over four arrays go twenty passes, which the cache should hold.
    for tile in backend.tiles(x.size, 2, xp):
        parts = flat_x[tile], flat_y[tile], flat_slope[tile]
        some_low = x.size and not parts[0].min() >= LOW  # also where one is NaN
        with np.errstate(invalid="ignore"):  # 0·∞ at -∞, which is below LOW
            formula(xp, *parts)
        if some_low:
            _lower_tail(xp, exact, *parts)
    return y, (lambda g: g * slope,)


def _gelu_exact(xp: Any, x: Array, y: Array, slope: Array) -> None:
    """Into y: x·Φ(x). Into slope: its derivative Φ(x) + x·φ(x)."""
    if x.dtype == xp.float32:
        near = xp.clip(x, -FAR, FAR, out=y)
        xp.multiply(near, near, out=slope)
        share = _half_log_odds(near, slope)
        xp.tanh(share, out=share)
    else:
        near = xp.clip(x, -40, 40, out=y)
        xp.multiply(near, near, out=slope)
        share = backend.erf(x * math.sqrt(0.5))
    share += 1
    share *= 0.5  # Φ(x)
    slope *= -0.5
    xp.exp(slope, out=slope)
    slope *= 1 / math.sqrt(2 * math.pi)  # φ(x)
    slope *= near
    slope += share
    xp.multiply(share, x, out=y)


def _gelu_tanh(xp: Any, x: Array, y: Array, slope: Array) -> None:
    """Into y: x·s, s = (1 + tanh u)/2, u = cx + dx³. Into slope: s + 2x·s(1 - s)·(c + 3dx²)."""
    c, d = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
    near = xp.clip(x, -40, 40, out=y)
    xp.multiply(near, near, out=slope)
    share = slope * d
    share += c
    share *= near  # u
    xp.tanh(share, out=share)
    share += 1
    share *= 0.5  # s
    near *= share
    slope *= 6 * d
    slope += 2 * c
    slope *= near
    slope *= 1 - share
    slope += share
    xp.multiply(share, x, out=y)


LOW = -3.5
"""Below this, Φ and s are so small that 1 + erf, or 1 + tanh, has lost its first digits."""
TERMS = {4: 10, 8: 34}
"""Of Laplace's fraction, by the bytes of a number: at `LOW` as exact as the number itself."""


def _lower_tail(xp: Any, exact: bool, x: Array, y: Array, slope: Array) -> None:
    """The same again where x is below `LOW`, by formulas that are exact there, if slower.

    Exact: Φ = φ·m(-x), m Mills' ratio: m(z) = 1/(z + 1/(z + 2/(z + 3/(z + ..)))) (Laplace 1805).
    Else:  s = e/(1 + e), e = e²ᵘ.
    """
    low = xp.flatnonzero(x < LOW)
    near = xp.maximum(x[low], -40)
    square = near * near
    if exact:
        density, below = xp.exp(square * -0.5) * (1 / math.sqrt(2 * math.pi)), -near
        for k in range(TERMS[x.dtype.itemsize], 0, -1):
            below = k / below - near
        share = density / below
        rise = density
    else:
        c, d = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
        e = xp.exp(near * (2 * c + 2 * d * square))
        share = e / (1 + e)
        rise = share * (1 - share) * (2 * c + 6 * d * square)
    y[low] = near * share
    slope[low] = share + near * rise
