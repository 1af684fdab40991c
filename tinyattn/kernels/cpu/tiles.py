"""Engine room, CPU: tiles, pieces of an array that fit the cache of a core.

Several passes over one tile are two to three times as fast as passes over a long array, which fetch
it from memory each time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinyattn.backend import Array

TILE = 1 << 17
"""Elements in a tile: 512 kB of float32; two tiles fit the cache of one core. Smaller tiles fit
better, but need more operations, between which threads wait for the interpreter."""

SMALL = 1 << 14
"""Elements below which a new array costs nothing: the C library keeps memory for it."""


def tiles(length: int, width: int) -> Iterator[slice]:
    """Slices of `length` rows of `width` elements: each a tile, or one row if a row is larger."""
    step = max(1, TILE // max(1, width))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


class Scratch(threading.local):
    """Arrays for intermediate results, which a thread uses again for every tile, each by its name.

    A new array for each tile costs more than the tile's arithmetic: the system clears its pages
    first, and they are in no cache (benchmarks/speed.md). No result may be a view of such an array.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Any], Array] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array with any contents. It is valid until this thread asks for the name again."""
        size = math.prod(shape)
        if not SMALL <= size <= TILE:
            return np.empty(shape, dtype)
        kept = self._kept.get((name, dtype))
        if kept is None or kept.size < size:
            kept = self._kept[name, dtype] = np.empty(size, dtype)
        return kept[:size].reshape(shape)


scratch = Scratch()
