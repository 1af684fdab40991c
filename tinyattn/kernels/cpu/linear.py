"""Engine room, CPU: linear maps; the bias is added in place, matrix products sum its gradient."""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cpu.sums import sum_rows
from tinyattn.kernels.register import kernel


@kernel("linear", "cpu")
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """`ops.linear`."""
    N = math.prod(x.shape[:-1])
    rows = x.reshape(N, x.shape[-1])
    y = xp.matmul(rows, weight)
    if bias is not None:
        y += bias

    def flat(g: Array) -> Array:
        return g.reshape(N, weight.shape[1])

    return y.reshape(*x.shape[:-1], weight.shape[1]), (
        lambda g: xp.matmul(flat(g), weight.T).reshape(x.shape),
        lambda g: xp.matmul(rows.T, flat(g)),
        lambda g: sum_rows(flat(g)),
    )
