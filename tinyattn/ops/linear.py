"""Chapter 2: linear maps, y = x W + b.

A transformer spends nearly all its time here. The gradients of a matrix product are two more matrix
products (derivations/02_matmul.md). Next: parameters and modules (nn/module.py).
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


def _check(xp: Any, x: Array, weight: Array, bias: Array = None) -> None:
    """Raises: ValueError if shapes do not fit."""
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"linear: weight must be ({x.shape[-1] if x.ndim else '?'}, any) for x {x.shape}; "
            f"got {weight.shape}"
        )
    if hasattr(bias, "shape") and bias.shape != weight.shape[1:]:
        raise ValueError(f"linear: bias must be {weight.shape[1:]}; got {bias.shape}")


@op(check=_check)
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """An affine map of the last axis: a layer without an activation function.

    Forward:  y = x W + b
    Backward: dx = g Wᵀ, dW = xᵀ g, db = Σ g; dW and db sum over all N rows of x
    Shapes:   x (..., C), W (C, F) (PyTorch stores Wᵀ), b (F,) -> y (..., F)
    Raises:   ValueError if shapes do not fit
    """
    (C, F), N = weight.shape, math.prod(x.shape[:-1])
    y = xp.matmul(x, weight)
    y = y if bias is None else y + bias
    return y, (
        lambda g: xp.matmul(g, weight.T),
        lambda g: xp.matmul(x.reshape(N, C).T, g.reshape(N, F)),
        lambda g: g.reshape(N, F).sum(axis=0),
    )
