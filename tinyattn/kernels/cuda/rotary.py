"""Engine room, CUDA: rotary embedding, one thread for each pair of elements."""

from __future__ import annotations

from functools import cache
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.register import kernel

ROTATE = "y_even = even * cosine - odd * sine; y_odd = even * sine + odd * cosine"


@cache
def _rotate(xp: Any) -> Any:
    return xp.ElementwiseKernel(
        "T even, T odd, T cosine, T sine", "T y_even, T y_odd",
        ROTATE,
        "tinyattn_rotate",
    )  # fmt: skip


@kernel("rotate", "cuda")
def rotate(xp: Any, x: Array, *, cos: Array, sin: Array) -> Any:
    """`ops.rotate` in one launch, and backward in two."""
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)  # copies: the vjp relies on them

    def rotated(a: Array, sin: Array) -> Array:
        out = xp.empty(a.shape, dtype=a.dtype)
        _rotate(xp)(a[..., 0::2], a[..., 1::2], cos, sin, out[..., 0::2], out[..., 1::2])
        return out

    return rotated(x, sin), (lambda g: rotated(g, -sin),)
