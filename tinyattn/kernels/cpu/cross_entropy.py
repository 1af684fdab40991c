"""Engine room, CPU: cross-entropy tile by tile, with the logits copied once."""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.kernels.register import kernel
from tinyattn.op import Index


@kernel("cross_entropy", "cpu")
def cross_entropy(
    xp: Any,
    logits: Array,
    targets: Index,
    *,
    ignore: int | None = None,
    divisor: float | None = None,
) -> Any:
    """`ops.cross_entropy`, in the same order and so with the same bits."""
    V = logits.shape[-1]
    picked = targets.reshape(-1)
    valid = xp.ones(picked.shape, dtype=bool) if ignore is None else picked != ignore
    places = xp.arange(len(picked)), xp.where(valid, picked, 0)
    e = xp.array(logits.reshape(len(picked), V))
    largest, total = (xp.empty((len(e), 1), dtype=e.dtype) for _ in range(2))
    e[~valid] = 0  # ignored rows may contain ∞ or NaN
    losses = e[places]
    parts = list(tiles(len(e), V))
    for part in parts:
        tile = e[part]
        tile -= tile.max(axis=1, keepdims=True, out=largest[part])
        xp.exp(tile, out=tile)
        tile.sum(axis=1, keepdims=True, out=total[part])
    losses = xp.log(total[:, 0]) - (losses - largest[:, 0])
    weight = valid.astype(e.dtype)
    weight /= xp.maximum(weight.sum(), 1) if divisor is None else divisor

    def dz(g: Array) -> Array:
        d = xp.empty_like(e)
        scale = (weight / total[:, 0])[:, None]
        for part in parts:
            xp.multiply(e[part], scale[part], out=d[part])
        d[places] -= weight
        d *= g
        return d.reshape(logits.shape)

    return (losses * weight).sum(), (dz, None)
