"""Engine room, CPU: tiles, pieces of an array that fit the cache of a core.

Several passes over one tile are two to three times as fast as passes over a long array, which fetch
it from memory each time.
"""

from __future__ import annotations

from collections.abc import Iterator

TILE = 1 << 17
"""Elements in a tile: 512 kB of float32; two tiles fit the cache of one core. Smaller tiles fit
better, but need more operations, between which threads wait for the interpreter."""


def tiles(length: int, width: int) -> Iterator[slice]:
    """Slices of `length` rows of `width` elements: each a tile, or one row if a row is larger."""
    step = max(1, TILE // max(1, width))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
