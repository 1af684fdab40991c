"""Engine room, CUDA: turning pairs, one thread for each pair."""

from __future__ import annotations

from functools import cache
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.table import kernel

TURN = "y_even = even * cosine - odd * sine; y_odd = even * sine + odd * cosine"


@cache
def _turn(xp: Any) -> Any:
    return xp.ElementwiseKernel(
        "T even, T odd, T cosine, T sine", "T y_even, T y_odd",
        TURN,
        "tinyattn_rotate",
    )  # fmt: skip


@kernel("rotate", "cuda")
def rotate(xp: Any, x: Array, *, cos: Array, sin: Array) -> Any:
    """`ops.rotate` in one launch, and backward in two."""
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)  # copies: the vjp relies on them

    def turn(a: Array, sin: Array) -> Array:
        out = xp.empty(a.shape, dtype=a.dtype)
        _turn(xp)(a[..., 0::2], a[..., 1::2], cos, sin, out[..., 0::2], out[..., 1::2])
        return out

    return turn(x, sin), (lambda g: turn(g, -sin),)
