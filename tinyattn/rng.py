"""Chapter 3: a counter-based random number generator for dropout.

Dropout needs new random bits at every step. The draws of an ordinary generator depend on all draws
before them, so also on how a batch was split between threads, and on whether a run was resumed.
Here the bits of an element are a pure function of (seed, step, number of the dropout call, index of
the element). So the mask is the same on CPU and GPU, for any number of workers, and after a
restart. Next: the key-value cache of generation (attention/cache.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinyattn.backend import Array
from tinyattn.limits import seed_of
from tinyattn.ops.dropout import check_rate

_MASK64 = (1 << 64) - 1


def generator(seed: int) -> np.random.Generator:
    """An ordinary NumPy generator, for draws made by one thread alone, such as initial weights.

    Raises: ValueError unless the seed is a whole number from 0 to 2^64 - 1.
    """
    return np.random.default_rng(seed_of(seed))


class DropoutRNG:
    """The random bits for dropout in one forward pass of training.

    A module that receives a DropoutRNG applies dropout; a module that receives None does not. Each
    call of `mask` is one *dropout call*; the calls are numbered in the order of the forward pass.
    If the pass computes a part of a batch, `first_row` is the index of the part's first sequence in
    the whole batch. So the masks do not depend on how a batch is split over workers.
    """

    def __init__(self, seed: int, step: int = 0, first_row: int = 0) -> None:
        self.seed, self.step, self.first_row = seed_of(seed), step, first_row
        self._calls = 0

    def mask(self, rate: float) -> DropoutMask:
        """The mask of the next dropout call; `rate`, 0 to 255/256, is the dropout probability."""
        check_rate(rate, "dropout: rate")
        key = _hash64(self.seed, self.step, self._calls)
        self._calls += 1
        return DropoutMask(key, rate, self.first_row)


class DropoutMask(NamedTuple):
    """The mask of one dropout call: which elements are kept."""

    key: int
    rate: float
    first_row: int

    def keep(self, xp: Any, shape: tuple[int, ...]) -> Array:
        """A boolean array of `shape`, True = keep; each element is False with probability `rate`.

        The bits of an element depend only on its index, not on the lengths of the axes. So a batch
        whose padding was cut off drops the same elements as before.
        """
        keys, least, width, _ = row_keys(xp, self, shape)
        words = xp.arange(-(-width // 4), dtype=xp.uint32)  # ⌈width/4⌉ words: a byte per element
        draws = hashed(keys, words, self.key).view(xp.uint8)[:, :width]
        return (draws >= least).reshape(shape)


def row_keys(
    xp: Any, dropout_mask: DropoutMask, shape: tuple[int, ...], corner: tuple[int, ...] = ()
) -> tuple[Array, Array, int, int]:
    """For each row of a mask: the hash key and `least`; an element is kept if its byte ≥ least.

    Args: corner: the index of the first element, if `shape` is a tile of the whole mask.
    Returns: keys (N,), least (N, 1); the length of a row, and the column in which it begins.
    """
    first = list(corner or (0,) * max(1, len(shape)))
    first[0] += dropout_mask.first_row
    *leading, width = shape if len(shape) > 1 else (*shape, 1)
    keys = xp.full(1, dropout_mask.key >> 32, dtype=xp.uint32)
    for start, size in zip(first, leading, strict=False):
        counters = xp.arange(start, start + size, dtype=xp.uint32)
        keys = hashed(keys, counters, dropout_mask.key).ravel()
    # Stochastic rounding: the rate in 256ths is rounded up in some rows and down in others, so that
    # it is right on average.
    whole, rest = divmod(dropout_mask.rate * 256, 1)
    least = xp.uint8(whole) + (keys < xp.uint32(rest * 2**32)).astype(xp.uint8)
    return keys, least[:, None], width, first[-1] if len(shape) > 1 else 0


def hashed(keys: Array, counters: Array, key: int) -> Array:
    """32 random bits for each pair of a key and a counter: a keyed xor-shift-multiply hash.

    The multipliers and shifts are those of `lowbias32` (skeeto/hash-prospector, 2018). They come
    from a search for the least bias: if one input bit changes, each output bit should change with
    probability 1/2. The keys enter between the two multiplications. If they entered with the
    counters, two keys would give the same words in another order.
    """
    x = counters ^ np.uint32(key & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    bits = keys[:, None] ^ x
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return bits


def _hash64(*numbers: int) -> int:
    """A 64-bit hash of some integers (the finaliser of the SplitMix64 generator)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
        state ^= state >> 31
    return state
