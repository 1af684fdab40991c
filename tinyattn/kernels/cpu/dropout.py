"""Engine room, CPU: dropout, whose random bits are made tile by tile and used as bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.kernels.table import kernel
from tinyattn.noise import Noise, Site, hashed, row_keys


def keep(site: Site, shape: tuple[int, ...], corner: tuple[int, ...] = ()) -> np.ndarray:
    """`Site.keep`; of the bits themselves there is one definition, `noise.hashed`."""
    keys, least, width, column = row_keys(np, site, shape, corner)
    skip = column % 4
    words = np.arange(column // 4, -(-(column + width) // 4), dtype=np.uint32)
    kept = np.empty((len(keys), width), dtype=bool)
    for rows in tiles(len(keys), max(1, len(words))):
        draws = hashed(keys[rows], words, site.key).view(np.uint8)
        np.greater_equal(draws[:, skip : skip + width], least[rows], out=kept[rows])
    return kept.reshape(shape)


def _why_not(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> str:
    """Something to drop."""
    return "drops nothing" if noise is None or rate == 0 else ""


@kernel("dropout", "cpu", _why_not)
def dropout(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> Any:
    """`ops.dropout`."""
    assert noise is not None
    kept = keep(noise.site(rate), x.shape)
    scale = 1 / (1 - rate)

    def drop(a: Array) -> Array:
        out = _chosen(kept, a)
        out *= scale
        return out

    return drop(x), (drop,)


def _chosen(kept: np.ndarray, a: np.ndarray) -> Any:
    """a where `kept`, else 0. By bits: 0·∞ would be NaN, and `where` is slow at random places."""
    bits = np.negative(kept.view(np.int8)).astype(f"i{a.dtype.itemsize}")  # all of them, or none
    bits &= a.view(bits.dtype)
    return bits.view(a.dtype)
