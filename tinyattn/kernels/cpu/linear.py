"""Engine room, CPU: linear maps; the bias is added in place, matrix products sum its gradient.

OpenBLAS copies the matrices of a product into an order of its own first. For a few rows, as in
generation, this takes longer than the product. For small products it has programs that copy
nothing, on processors with AVX-512. So a product with few rows is divided into small ones.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cpu.sums import sum_rows
from tinyattn.kernels.register import kernel

FEW, SMALL = 32, 1_000_000
"""Rows up to which a product is divided, and multiply-adds up to which OpenBLAS copies nothing."""
COLUMNS = 64
"""Fewest columns of a part: with fewer, the calls take longer than the copies."""


@kernel("linear", "cpu")
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """`ops.linear`."""
    N = math.prod(x.shape[:-1])
    rows = x.reshape(N, x.shape[-1])
    y = product(xp, rows, weight)
    if bias is not None:
        y += bias

    def flat(g: Array) -> Array:
        return g.reshape(N, weight.shape[1])

    return y.reshape(*x.shape[:-1], weight.shape[1]), (
        lambda g: xp.matmul(flat(g), weight.T).reshape(x.shape),
        lambda g: xp.matmul(rows.T, flat(g)),
        lambda g: sum_rows(flat(g)),
    )


def product(xp: Any, rows: Array, weight: Array) -> Array:
    """The matrix product, in parts of some columns if there are few rows."""
    (N, n_in), n_out = rows.shape, weight.shape[1]
    step = SMALL // max(1, N * n_in) // COLUMNS * COLUMNS
    if N > FEW or step < COLUMNS or step >= n_out:
        return xp.matmul(rows, weight)
    y = xp.empty((N, n_out), dtype=rows.dtype)
    for start in range(0, n_out, step):
        part = slice(start, start + step)
        xp.matmul(rows, weight[:, part], out=y[:, part])
    return y
