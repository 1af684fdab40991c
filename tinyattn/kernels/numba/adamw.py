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
    """Needs float32 arrays in one piece."""
    arrays = [w, g, m, v] + [decay] * isinstance(decay, np.ndarray)
    fit = all(a.dtype == np.float32 and a.flags.c_contiguous for a in arrays)
    return "" if fit and all(a.size == w.size for a in arrays) else "not float32 in one piece"


@kernel("adamw", "numba", _why_not)
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """`training.optimizers.adamw`."""
    from tinyattn.kernels.numba import loops

    correct = math.sqrt(1 - beta2**t)
    shrink = np.atleast_1d(np.asarray(lr * decay, np.float32))
    loops.adamw_step(
        *(a.reshape(-1) for a in (w, g, m, v)), np.float32(lr * correct / (1 - beta1**t)),
        np.float32(eps * correct), shrink.reshape(-1),
        *(np.float32(number) for beta in (beta1, beta2) for number in (beta, 1 - beta)),
    )  # fmt: skip
