"""Chapter 1b: random bits that need no state.

Dropout wants fresh random numbers at every step. A generator that is advanced draw by draw ties
the result to everything that happened before: to the device, to how a batch was split between
threads, to the place where a run was resumed. Here the bit for an element is a pure function of
(seed, step, site, element), so the mask is the same on CPU and GPU, for any number of workers,
and after a restart. Next: tensors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, tiles

_MASK64 = (1 << 64) - 1


def _mix(*numbers: int) -> int:
    """64 well-mixed bits from some integers (the finaliser of the SplitMix64 generator)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
        state ^= state >> 31
    return state


class Noise:
    """The random bits of one forward pass.

    A module that receives a Noise is training; one that receives None is not, and drops nothing.
    Each call of `keep` is one *site*, numbered in the order of the forward pass. `first_row` says
    which row of the whole batch this pass begins with, so that a batch split over workers drops
    what the whole batch would drop.
    """

    def __init__(self, seed: int, step: int = 0, first_row: int = 0) -> None:
        self.seed, self.step, self.first_row = seed, step, first_row
        self._site = 0

    def keep(self, xp: Any, shape: tuple[int, ...], rate: float) -> Array:
        """A boolean array of `shape` that is False with probability `rate` (to within 2⁻¹⁶).

        Every row (index along the first axis) is drawn from its own stretch of the counter.
        """
        if not 0 <= rate < 1:
            raise ValueError(f"dropout: rate must be at least 0 and below 1; got {rate}")
        key = _mix(self.seed, self.step, self._site)
        self._site += 1
        rows, row = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
        words = -(-row // 2)  # 32-bit words a row, two 16-bit draws in each
        bits = _hash(xp, key, self.first_row * words % (1 << 32), rows * words)
        draws = bits.view(xp.uint16).reshape(rows, 2 * words)[:, :row]
        return draws.reshape(shape) >= xp.uint16(round(rate * 65536))


def _hash(xp: Any, key: int, first: int, count: int) -> Array:
    """32 random bits for each counter first, first+1, ...: a keyed xor-shift-multiply hash.

    The multipliers and shifts are those of `lowbias32` (skeeto/hash-prospector, 2018), found by
    search for the least bias. The second half of the key goes in between the two multiplications,
    so that two keys give unrelated sequences and not one sequence shifted.
    """
    out = xp.empty(count, dtype=xp.uint32)
    for tile in tiles(count, 1, xp):
        x = xp.arange(tile.start, tile.stop, dtype=xp.uint32)
        x += np.uint32(first)
        x ^= np.uint32(key & 0xFFFFFFFF)
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= np.uint32(key >> 32)
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x846CA68B)
        out[tile] = x ^ (x >> np.uint32(16))
    return out
