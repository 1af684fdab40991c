"""Engine room, CPU: GELU and the error function, by polynomials and tile by tile.

NumPy has no error function. The C library's, called for one element after the other, takes a
hundred times as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, device_of
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.kernels.register import kernel

FAR = 6.0
"""Beyond ±FAR, erf(x/√2) = 2Φ(x) - 1 is ±1 in float32, to the last bit."""

# Φ(x) ≈ (1 + tanh(x·P(x²)))/2 on |x| ≤ 6. The coefficients of P, highest first: a least-squares
# fit on 1,500 Chebyshev nodes, reweighted until the largest errors of 2Φ - 1 were equal, 6e-8;
# with the rounding of float32, 1.4e-7.
CDF = (1.756280676e-09, -1.322663602e-07, 3.964773739e-06, -5.530631752e-05, -3.259474919e-05,
        3.633308442e-02, 7.978849415e-01)  # fmt: skip


def _half_log_odds(x: Array, square: Array) -> Array:
    """atanh(2Φ(x) - 1), half the log-odds that a standard normal is below x; |x| ≤ 6."""
    y = square * CDF[0]
    for coefficient in CDF[1:-1]:  # Horner's rule, in place
        y += coefficient
        y *= square
    y += CDF[-1]
    y *= x
    return y


def _float64(xp: Any, x: Array) -> str:
    """Needs float32, for which the polynomial is as accurate as the dtype."""
    return "" if x.dtype == np.float32 else "float64"


@kernel("erf", "cpu", _float64)
def erf(xp: Any, x: Array) -> Any:
    """`ops.erf`, from the polynomial for Φ."""
    near = xp.clip(x * math.sqrt(2), -FAR, FAR)
    y = xp.tanh(_half_log_odds(near, near * near))

    def dx(g: Array) -> Array:
        near = xp.clip(x, -40, 40)
        slope = xp.exp(-near * near) * (2 / math.sqrt(math.pi))
        return g * xp.where(g == 0, 1, slope)

    return y, (dx,)


@kernel("gelu", "cpu")
def gelu(xp: Any, x: Array, *, exact: bool = True) -> Any:
    """`ops.gelu`.

    The derivative is computed in the forward pass, while its ingredients are in the cache. The
    backward pass is then a single multiplication.
    """
    y, slope = (xp.empty(x.shape, dtype=x.dtype) for _ in range(2))  # C order: flat is a view
    flat_x, flat_y, flat_slope = (a.reshape(-1) for a in (x, y, slope))
    fill = _gelu_exact if exact else _gelu_tanh
    # Half a tile each: twenty passes go over four arrays, which should fit the cache.
    for tile in tiles(x.size, 2):
        parts = flat_x[tile], flat_y[tile], flat_slope[tile]
        some_low = x.size and not parts[0].min() >= LOW  # also if an element is NaN
        with np.errstate(invalid="ignore"):  # 0·∞ at -∞, which is below LOW
            fill(xp, *parts)
        if some_low:
            lower_tail(xp, exact, *parts)
    return y, (lambda g: g * slope,)


def _gelu_exact(xp: Any, x: Array, y: Array, slope: Array) -> None:
    """Compute x·Φ(x) into y, and its derivative Φ(x) + x·φ(x) into slope."""
    if x.dtype == xp.float32:
        near = xp.clip(x, -FAR, FAR, out=y)
        xp.multiply(near, near, out=slope)
        share = _half_log_odds(near, slope)
        xp.tanh(share, out=share)
    else:
        near = xp.clip(x, -40, 40, out=y)
        xp.multiply(near, near, out=slope)
        share = device_of(x).erf(x * math.sqrt(0.5))
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
"""Below this, Φ and s are so small that 1 + erf, or 1 + tanh, has lost digits by cancellation."""
TERMS = {4: 10, 8: 34}
"""Terms of Laplace's continued fraction by the bytes of an element: enough for its dtype at LOW."""


def lower_tail(xp: Any, exact: bool, x: Array, y: Array, slope: Array) -> None:
    """Compute both again where x is below `LOW`, by formulas that are accurate there, but slower.

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
