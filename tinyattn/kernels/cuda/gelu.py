"""Engine room, CUDA: GELU, one thread for each element."""

from __future__ import annotations

from functools import cache
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.register import kernel

EXACT = """
const T half = 0.5, share = half * erfc(x * T(-0.707106781186547524));  // exact near 0 too
const T density = exp(-half * x * x) * T(0.398942280401432678);  // 1/sqrt(2 pi)
y = share == 0 ? 0 : x * share;
slope = share + (x * x < 1e9 ? x * density : 0);
"""
TANH = """
const T c = 0.797884560802865356, d = c * T(0.044715);  // c = sqrt(2/pi)
const T square = x * x, share = 1 / (1 + exp(-2 * x * (c + d * square)));  // exact near 0 too
y = share == 0 ? 0 : x * share;
// Where share is 0 or 1, the second term is 0, also where the square is infinite.
slope = share + (share > 0 && share < 1 ? 2 * y * (1 - share) * (c + 3 * d * square) : 0);
"""


@cache
def _both(xp: Any, exact: bool) -> Any:
    name = "tinyattn_gelu_exact" if exact else "tinyattn_gelu_tanh"
    return xp.ElementwiseKernel("T x", "T y, T slope", EXACT if exact else TANH, name)


@kernel("gelu", "cuda")
def gelu(xp: Any, x: Array, *, exact: bool = True) -> Any:
    """`ops.gelu` in one launch, and backward in one."""
    y, slope = _both(xp, exact)(x)
    return y, (lambda g: g * slope,)
