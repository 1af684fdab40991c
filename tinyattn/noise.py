"""Chapter 3: random bits that need no state.

Dropout wants fresh random numbers at every step. A generator that is advanced draw by draw ties the
result to everything that happened before: to the device, to how a batch was split between threads,
to the place where a run was resumed. Here the bit for an element is a pure function of (seed, step,
site, element), so the mask is the same on CPU and GPU, for any number of workers, and after a
restart. Next: what is kept of a sequence while it is continued (attention/cache.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinyattn.backend import Array
from tinyattn.limits import seed_of
from tinyattn.ops.dropout import check_rate

_MASK64 = (1 << 64) - 1


def generator(seed: int) -> np.random.Generator:
    """Random numbers on the host, where they need not be the same for every split of the work.

    Raises: ValueError unless the seed is a whole number from 0 to 2^64 - 1.
    """
    return np.random.default_rng(seed_of(seed))


class Noise:
    """The random bits of one forward pass.

    A module that receives a Noise is training; one that receives None is not, and drops nothing.
    Each call of `site` is one *site*, numbered in the order of the forward pass. `first_row` says
    which row of the whole batch this pass begins with, so that a batch split over workers drops
    what the whole batch would drop.
    """

    def __init__(self, seed: int, step: int = 0, first_row: int = 0) -> None:
        self.seed, self.step, self.first_row = seed_of(seed), step, first_row
        self._site = 0

    def site(self, rate: float) -> Site:
        """The next site of the forward pass, where a share `rate`, 0 to 255/256, is dropped."""
        check_rate(rate, "dropout: rate")
        key = _mix(self.seed, self.step, self._site)
        self._site += 1
        return Site(key, rate, self.first_row)


class Site(NamedTuple):
    """One place in the forward pass where something is dropped."""

    key: int
    rate: float
    first_row: int

    def keep(self, xp: Any, shape: tuple[int, ...]) -> Array:
        """A boolean array of `shape` that is False with probability `rate`.

        An element's bits follow from its index alone, one axis after the other, and not from how
        long the axes are: a batch that is cut to a shorter length drops what it would drop uncut.
        """
        keys, least, width, _ = row_keys(xp, self, shape)
        words = xp.arange(-(-width // 4), dtype=xp.uint32)  # of 4 × 8 bits
        draws = hashed(keys, words, self.key).view(xp.uint8)[:, :width]
        return (draws >= least).reshape(shape)


def row_keys(
    xp: Any, site: Site, shape: tuple[int, ...], corner: tuple[int, ...] = ()
) -> tuple[Array, Array, int, int]:
    """Of each row of a mask the key of its bits, and the least that they must be to keep a number.

    Args: corner: the index of the first element, where `shape` is a piece of the whole.
    Returns: keys (N,), least (N, 1); the length of a row, and the column in which it begins.
    """
    first = list(corner or (0,) * max(1, len(shape)))
    first[0] += site.first_row
    *leading, width = shape if len(shape) > 1 else (*shape, 1)
    keys = xp.full(1, site.key >> 32, dtype=xp.uint32)
    for start, size in zip(first, leading, strict=False):
        counters = xp.arange(start, start + size, dtype=xp.uint32)
        keys = hashed(keys, counters, site.key).ravel()
    # The rate in 256ths is rounded up in some rows and down in others, so as to be right on
    # average.
    whole, rest = divmod(site.rate * 256, 1)
    least = xp.uint8(whole) + (keys < xp.uint32(rest * 2**32)).astype(xp.uint8)
    return keys, least[:, None], width, first[-1] if len(shape) > 1 else 0


def hashed(keys: Array, counters: Array, key: int) -> Array:
    """32 random bits for each of `keys` and each of `counters`: a keyed xor-shift-multiply hash.

    The multipliers and shifts are those of `lowbias32` (skeeto/hash-prospector, 2018), found by
    search for the least bias. The keys go in between the two multiplications, so that two keys
    give unrelated sequences and not one sequence shifted.
    """
    x = counters ^ np.uint32(key & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    bits = keys[:, None] ^ x
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return bits


def _mix(*numbers: int) -> int:
    """64 well-mixed bits from some integers (the finaliser of the SplitMix64 generator)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
        state ^= state >> 31
    return state
