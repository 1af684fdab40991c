"""Engine room, Numba: dropout; its random bits are computed again in backward, and not kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.register import kernel
from tinyattn.rng import DropoutRNG, row_keys


def _why_not(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> str:
    """Needs float32, a dropout RNG and a dropout probability above 0."""
    if dropout_rng is None or rate == 0:
        return "drops nothing"
    return "" if x.dtype == np.float32 and x.ndim > 1 else "not float32, or no rows"


@kernel("dropout", "numba", _why_not)
def dropout(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> Any:
    """`ops.dropout`."""
    from tinyattn.kernels.numba import loops

    assert dropout_rng is not None
    mask = dropout_rng.mask(rate)
    rows, least, width, _ = row_keys(np, mask, x.shape)
    key, scale = np.uint32(mask.key & 0xFFFFFFFF), np.float32(1 / (1 - rate))

    def drop(a: Array) -> Array:
        a = np.ascontiguousarray(a)
        y = np.empty_like(a)
        matrix = len(rows), width
        loops.drop(a.reshape(matrix), rows, least[:, 0], key, scale, y.reshape(matrix))
        return y

    return drop(x), (drop,)
