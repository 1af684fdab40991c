"""Chapter 6: the matrix product.

The gradients of a matrix product are two more matrix products (derivations/02_matmul.md).
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


@op
def matmul(xp: Any, a: Array, b: Array) -> Any:
    """The matrix product, with NumPy's rules for vectors and batches of matrices.

    Forward:  y_ij = Σ_k a_ik b_kj
    Backward: da = g bᵀ, db = aᵀ g
    Shapes:   a (..., M, K) or (K,), b (..., K, N) or (K,) -> y (..., M, N) without a vector's axis
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
