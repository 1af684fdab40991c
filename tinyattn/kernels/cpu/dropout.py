"""Engine room, CPU: dropout; its random bits are computed tile by tile and used as bit masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.kernels.register import kernel
from tinyattn.rng import DropoutMask, DropoutRNG, hashed, row_keys


def keep(
    dropout_mask: DropoutMask, shape: tuple[int, ...], corner: tuple[int, ...] = ()
) -> np.ndarray:
    """`DropoutMask.keep`, tile by tile; both compute the bits by `rng.hashed`."""
    keys, least, width, column = row_keys(np, dropout_mask, shape, corner)
    skip = column % 4
    words = np.arange(column // 4, -(-(column + width) // 4), dtype=np.uint32)
    kept = np.empty((len(keys), width), dtype=bool)
    for rows in tiles(len(keys), max(1, len(words))):
        draws = hashed(keys[rows], words, dropout_mask.key).view(np.uint8)
        np.greater_equal(draws[:, skip : skip + width], least[rows], out=kept[rows])
    return kept.reshape(shape)


def _why_not(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> str:
    """Needs a dropout RNG and a dropout probability above 0."""
    return "drops nothing" if dropout_rng is None or rate == 0 else ""


@kernel("dropout", "cpu", _why_not)
def dropout(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> Any:
    """`ops.dropout`."""
    assert dropout_rng is not None
    kept = keep(dropout_rng.mask(rate), x.shape)
    scale = 1 / (1 - rate)

    def drop(a: Array) -> Array:
        out = _chosen(kept, a)
        out *= scale
        return out

    return drop(x), (drop,)


def _chosen(kept: np.ndarray, a: np.ndarray) -> Any:
    """a where `kept`, else 0. By bits: 0·∞ would be NaN, and `where` is slow for random masks."""
    bits = np.negative(kept.view(np.int8)).astype(f"i{a.dtype.itemsize}")  # all of them, or none
    bits &= a.view(bits.dtype)
    return bits.view(a.dtype)
