"""Engine room, CPU: the gradient of an embedding table; ids are sorted, equal ids summed."""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cpu.sums import add_at
from tinyattn.kernels.register import kernel
from tinyattn.op import Index


def _why_not(xp: Any, weight: Array, ids: Index) -> str:
    """Needs at least one id."""
    return "" if ids.size else "no ids"


@kernel("embedding", "cpu", _why_not)
def embedding(xp: Any, weight: Array, ids: Index) -> Any:
    """`ops.embedding`."""

    def dweight(g: Array) -> Array:
        out = xp.zeros_like(weight)
        add_at(xp, out, ids.reshape(-1), g.reshape(-1, weight.shape[1]))
        return out

    return weight[ids], (dweight, None)
