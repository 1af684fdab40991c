"""Chapter 3, continued: layer normalisation.

It keeps the numbers that flow through a deep stack at one size: each row is shifted to mean 0 and
scaled to variance 1, then given a learned scale and shift (derivations/04_layer_norm.md). Next:
the loss.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, tiles
from tinyattn.op import op
from tinyattn.ops.reduce import unit_of


@op
def layer_norm(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> Any:
    """Each row to mean 0 and variance 1, then scaled and shifted.

    Forward:  y = h·gain + bias, h = (x - m)·r, r = 1/√(v + eps), m and v the row's mean, variance
    Backward: dh = g·gain; dx = r·(dh - mean(dh) - h·mean(dh·h)); dgain = Σ g·h; dbias = Σ g
    Shapes:   x (..., C), gain (C,), bias (C,) -> y (..., C)
    Raises:   ValueError if gain or bias is not (C,)
    Source:   Ba, Kiros and Hinton 2016, equation 4; eps as PyTorch's default

    Sums over rows and columns are products with a vector of ones: the matrix product adds several
    times faster than a reduction does.
    """
    check_layer_norm(x, gain, bias)
    C = x.shape[-1]
    rows = x.reshape(-1, C)
    h, y = xp.empty_like(rows), xp.empty_like(rows)
    r = xp.empty((len(rows), 1), dtype=x.dtype)
    average = xp.full((C, 1), 1 / C, dtype=x.dtype)
    parts = list(tiles(len(rows), C, xp))
    for part in parts:
        _normalize(xp, rows[part], average, eps, h[part], r[part])
        y_part = xp.multiply(h[part], gain, out=y[part])
        y_part += bias

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = g.reshape(-1, C)
        dx, dgain, dbias = xp.empty_like(h), xp.zeros_like(gain), xp.zeros_like(bias)
        weights = gain[:, None] * average
        for part in parts:
            ones = xp.ones(len(h[part]), dtype=g.dtype)
            gh = g[part] * h[part]
            dgain += xp.matmul(ones, gh)
            dbias += xp.matmul(ones, g[part])
            d = xp.multiply(g[part], gain, out=dx[part])
            d -= xp.matmul(g[part], weights)
            d -= h[part] * xp.matmul(gh, weights)
            d *= r[part]
        return dx.reshape(x.shape), dgain, dbias

    return y.reshape(x.shape), vjp


def _normalize(xp: Any, x: Array, average: Array, eps: float, h: Array, r: Array) -> None:
    """Into r: 1/√(v + eps) of each row. Into h: (x - m)·r.

    Where squares overflow or vanish, the row is divided by a power of two first: x by u and eps by
    u², which changes no bit of h. It is not done to all rows because it takes half as long again.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # mended below
        xp.subtract(x, xp.matmul(x, average), out=h)
        v = xp.matmul(h * h, average)
        v += eps
        xp.power(v, -0.5, out=r)
        h *= r
    tiny = np.finfo(x.dtype).tiny / np.finfo(x.dtype).eps
    if not (v.min() >= tiny and v.max() < math.inf):
        odd = xp.flatnonzero(~((v >= tiny) & (v < math.inf)))
        least = 2.0 ** (math.floor(math.log2(eps)) // 2) if eps else 0.0  # so that eps/u² is small
        unit = xp.maximum(unit_of(xp, x[odd], (1,)), least)
        part = x[odd] / unit
        part -= xp.matmul(part, average)
        per = (xp.matmul(part * part, average) + eps / unit / unit) ** -0.5
        h[odd], r[odd] = part * per, per / unit


def check_layer_norm(x: Array, gain: Array, bias: Array) -> None:
    """Raises: ValueError if gain or bias is not as wide as x, or x has no width."""
    shapes = [getattr(a, "shape", type(a).__name__) for a in (gain, bias)]
    if x.ndim < 1 or x.shape[-1] == 0:
        raise ValueError(f"layer_norm: x must be (..., C) with C at least 1; got {x.shape}")
    if not shapes[0] == shapes[1] == x.shape[-1:]:
        raise ValueError(
            f"layer_norm: gain and bias must be {x.shape[-1:]} for x {x.shape}; "
            f"got {shapes[0]} and {shapes[1]}; without them, give ones and zeros"
        )
