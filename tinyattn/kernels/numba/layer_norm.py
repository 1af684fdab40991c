"""Engine room, Numba: layer normalization, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu import layer_norm as by_tiles
from tinyattn.kernels.register import kernel

TINY = float(np.finfo(np.float32).tiny / np.finfo(np.float32).eps)


def _why_not(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> str:
    """Needs float32."""
    fits = x.dtype == gain.dtype == bias.dtype == np.float32 and x.size
    return "" if fits else "not float32, or empty"


@kernel("layer_norm", "numba", _why_not)
def layer_norm(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> Any:
    """`ops.layer_norm`; if squares overflow or vanish, the kernel of NumPy computes it."""
    from tinyattn.kernels.numba import loops

    C = x.shape[-1]
    rows = np.ascontiguousarray(x).reshape(-1, C)
    gain_row, bias_row = np.ascontiguousarray(gain), np.ascontiguousarray(bias)
    h, y, r = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows), np.float32)
    least, most = loops.layer_norm_rows(rows, gain_row, bias_row, np.float32(eps), h, r, y)
    if not (least >= TINY and most < math.inf):
        return by_tiles.layer_norm(xp, x, gain, bias, eps=eps)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = np.ascontiguousarray(g).reshape(-1, C)
        dx, dgain, dbias = np.empty_like(h), np.zeros_like(gain_row), np.zeros_like(bias_row)
        loops.layer_norm_slopes(g, h, r, gain_row, dx, dgain, dbias)
        return dx.reshape(x.shape), dgain, dbias

    return y.reshape(x.shape), vjp
