"""Chapter 3, continued: linear maps. Next: turning pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tinyattn.backend import Array
from tinyattn.ops.linear import linear as formula
from tinyattn.twins import twin_of


@lru_cache(maxsize=8)
def _ones(xp: Any, count: int, dtype: Any) -> Array:
    return xp.ones(count, dtype=dtype)


@twin_of("linear")
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """`ops.linear`, whose gradient is laid out as rows but once, and whose ones are kept."""
    y, _ = formula.__wrapped__(xp, x, weight, bias)  # type: ignore[attr-defined]

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = g.reshape(-1, weight.shape[1])
        rows = x.reshape(-1, weight.shape[0])
        dx = xp.matmul(g, weight.T).reshape(x.shape)
        dbias = None if bias is None else xp.matmul(_ones(xp, len(g), g.dtype), g)
        return dx, xp.matmul(rows.T, g), dbias

    return y, vjp
