"""Engine room, CPU: optimizer rules that create few arrays.

A rule updates each element by itself (Muon: each matrix). So it may get any piece of a parameter,
or of several parameters in one array, that fits the cache (parallel/flat.py).
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cpu.orthogonal import orthogonal
from tinyattn.kernels.register import kernel


@kernel("adamw", "cpu")
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """`training.optimizers.adamw`."""
    # lr·m̂/(√v̂ + ε) = corrected_lr·m/(√v + corrected_eps); lr: the learning rate
    correct = math.sqrt(1 - beta2**t)
    corrected_lr, corrected_eps = lr * correct / (1 - beta1**t), eps * correct
    m *= beta1
    m += g * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    size = xp.sqrt(v)
    size += corrected_eps
    move = m / size
    move *= corrected_lr
    shrink(w, lr, decay)
    w -= move


@kernel("muon", "cpu")
def muon(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, lr: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """`training.muon.muon`."""
    m *= momentum
    m += g
    u = momentum * m
    u += g
    shrink(w, lr, decay)
    u = orthogonal(xp, u)
    u *= lr * math.sqrt(max(1.0, w.shape[-1] / w.shape[-2]))
    w -= u


def shrink(w: Array, lr: float, decay: Array | float) -> None:
    """Apply weight decay to w in place, unless decay is 0."""
    if not isinstance(decay, float) or decay:
        w *= 1 - lr * decay
