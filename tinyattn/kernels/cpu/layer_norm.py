"""Engine room, CPU: layer normalization tile by tile.

Sums over rows and columns are matrix products with a vector of ones, which are several times faster
than NumPy's reductions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.kernels.register import kernel
from tinyattn.ops.reduce import unit_of


@kernel("layer_norm", "cpu")
def layer_norm(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> Any:
    """`ops.layer_norm`, also for rows whose squares overflow or vanish."""
    C = x.shape[-1]
    rows = x.reshape(math.prod(x.shape[:-1]), C)
    h, y = xp.empty_like(rows), xp.empty_like(rows)
    r = xp.empty((len(rows), 1), dtype=x.dtype)
    average = xp.full((C, 1), 1 / C, dtype=x.dtype)
    parts = list(tiles(len(rows), C))
    for part in parts:
        _normalize(xp, rows[part], average, eps, h[part], r[part])
        y_part = xp.multiply(h[part], gain, out=y[part])
        y_part += bias

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = g.reshape(rows.shape)
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
    """Compute 1/√(v + eps) of each row into r, and (x - m)·r into h.

    Where squares overflow or vanish, the row is divided by a power of two first: x by u and eps by
    u². This changes no bit of h. Other rows skip it, because it takes half as long again.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # corrected below
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
