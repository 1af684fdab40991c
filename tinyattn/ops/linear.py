"""Chapter 3, continued: sums of products.

Nearly all the time of a transformer is spent here. The gradient of a matrix product is two more
matrix products (derivations/02_matmul.md). Next: normalisation.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


@op
def matmul(xp: Any, a: Array, b: Array) -> Any:
    """The matrix product; with NumPy's rules for vectors and stacks of matrices.

    Forward:  y_ij = Σ_k a_ik b_kj
    Backward: da = g bᵀ, db = aᵀ g
    Shapes:   a (..., M, K) or (K,), b (..., K, N) or (K,) -> y (..., M, N) less the vector's axis
    Raises:   ValueError if the inner sizes differ
    """
    for operand, which in ((a, "left"), (b, "right")):
        if not hasattr(operand, "ndim") or operand.ndim == 0:
            raise ValueError(f"matmul: the {which} operand is a number; multiply with *")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        swapped = b.ndim > 1 and b.shape[-1] == a.shape[-1]
        raise ValueError(
            f"matmul: inner sizes must match; got a {a.shape} @ b {b.shape}, "
            f"{a.shape[-1]} != {inner}{'; did you mean b.swapaxes(-1, -2)?' * swapped}"
        )
    rows = a if a.ndim > 1 else a[None, :]  # a vector on the left is a row, (1, K)
    columns = b if b.ndim > 1 else b[:, None]  # a vector on the right is a column, (K, 1)

    def matrices(g: Array) -> Array:
        g = g if a.ndim > 1 else xp.expand_dims(g, -1 if b.ndim == 1 else -2)
        return g if b.ndim > 1 else xp.expand_dims(g, -1)

    def da(g: Array) -> Array:
        out = xp.matmul(matrices(g), columns.swapaxes(-1, -2))
        return out if a.ndim > 1 else out[..., 0, :]

    def db(g: Array) -> Array:
        out = xp.matmul(rows.swapaxes(-1, -2), matrices(g))
        return out if b.ndim > 1 else out[..., :, 0]

    return xp.matmul(a, b), (da, db)


def _check_linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> None:
    """Raises: ValueError if sizes do not fit."""
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"linear: weight must be ({x.shape[-1] if x.ndim else '?'}, any) for x {x.shape}; "
            f"got {weight.shape}"
        )
    if hasattr(bias, "shape") and bias.shape != weight.shape[1:]:
        raise ValueError(f"linear: bias must be {weight.shape[1:]}; got {bias.shape}")


@op(check=_check_linear)
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """An affine map of the last axis: a layer of neurons without the bend.

    Forward:  y = x W + b
    Backward: dx = g Wᵀ, dW = xᵀ g, db = Σ g, the last two over all rows
    Shapes:   x (..., C), W (C, F), b (F,) -> y (..., F)
    Raises:   ValueError if sizes do not fit
    """
    (C, F), N = weight.shape, math.prod(x.shape[:-1])
    y = xp.matmul(x, weight)
    return y if bias is None else y + bias, (
        lambda g: xp.matmul(g, weight.T),
        lambda g: xp.matmul(x.reshape(N, C).T, g.reshape(N, F)),
        lambda g: g.reshape(N, F).sum(axis=0),
    )
