"""Engine room, Numba: AdamW in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.register import kernel


def _why_not(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> str:  # fmt: skip
    """Needs float32."""
    arrays = [w, g, m, v] + [decay] * isinstance(decay, np.ndarray)
    fit = all(a.dtype == np.float32 and a.shape == w.shape for a in arrays)
    return "" if fit else "not float32, or of other shapes"


@kernel("adamw", "numba", _why_not)
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """`training.optimizers.adamw`."""
    from tinyattn.kernels.numba import loops

    correct = math.sqrt(1 - beta2**t)
    shrink = np.atleast_1d(np.asarray(lr * decay, np.float32))
    pieces = [np.ascontiguousarray(a).reshape(-1) for a in (w, g, m, v)]
    loops.adamw_step(
        *pieces, np.float32(lr * correct / (1 - beta1**t)),
        np.float32(eps * correct), shrink.reshape(-1),
        *(np.float32(number) for beta in (beta1, beta2) for number in (beta, 1 - beta)),
    )  # fmt: skip
    for a, piece in zip((w, m, v), (pieces[0], *pieces[2:]), strict=True):
        if not a.flags.c_contiguous:  # the loop has changed a copy
            a[...] = piece.reshape(a.shape)
