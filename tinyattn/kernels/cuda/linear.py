"""Engine room, CUDA: linear maps, with the matmul precision of the context."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cuda.precision import product
from tinyattn.kernels.register import kernel


@lru_cache(maxsize=8)
def _ones(xp: Any, count: int, dtype: Any) -> Array:
    return xp.ones(count, dtype=dtype)


@kernel("linear", "cuda")
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """`ops.linear` with matrix products of the chosen precision (precision.py).

    The gradient g is reshaped to rows once, and the vector of ones is cached.
    """
    N = math.prod(x.shape[:-1])
    rows = x.reshape(N, x.shape[-1])
    y = product(xp, rows, weight)
    if bias is not None:
        y += bias

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = g.reshape(N, weight.shape[1])
        dbias = None if bias is None else xp.matmul(_ones(xp, len(g), g.dtype), g)
        return product(xp, g, weight.T).reshape(x.shape), product(xp, rows.T, g), dbias

    return y.reshape(*x.shape[:-1], weight.shape[1]), vjp
