"""Engine room, Numba: GELU in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.gelu import CDF, FAR, LOW, lower_tail
from tinyattn.kernels.register import kernel

POLYNOMIAL = tuple(np.float32(c) for c in CDF)


def _why_not(xp: Any, x: Array, *, exact: bool = True) -> str:
    """Needs float32."""
    return "" if x.dtype == np.float32 else "not float32"


@kernel("gelu", "numba", _why_not)
def gelu(xp: Any, x: Array, *, exact: bool = True) -> Any:
    """`ops.gelu`; the derivative is computed in the forward pass."""
    from tinyattn.kernels.numba import loops

    x = np.asarray(x, order="C")
    y, slope = np.empty_like(x), np.empty_like(x)
    flat = x.reshape(-1), y.reshape(-1), slope.reshape(-1)
    low = np.float32(LOW)
    if (
        loops.gelu_exact(*flat, POLYNOMIAL, np.float32(FAR), low)
        if exact
        else loops.gelu_tanh(*flat, low)
    ):
        lower_tail(xp, exact, *flat)
    return y, (lambda g: g * slope,)
