"""Engine room, CPU: the pairs of a query and a key, cut into tiles.

Attention computes a score for every query and key: T × S pairs for each head of each sequence. This
file defines their order: a few queries of a few heads at a time, against tiles of the keys that
they may attend to, so that each tile fits the cache of a core. Masks are applied here too: `hide`
sets the scores of masked pairs to -∞, and tiles in which all pairs are masked are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.op import Mask

QUERIES, KEYS = (64, 256), 512
"""Queries of a tile, fewest and most, and keys of a tile. With few queries a causal mask skips more
tiles; with many the matrix products are faster. An eighth of the sequence, within these bounds, was
fastest from T = 128 to 4096."""

Part = tuple[slice, ...]
"""A part of the leading axes: some sequences, or some heads of one sequence."""


class Pairs:
    """T queries against S keys, for every index of the leading axes `lead`, in tiles.

    Args:
        allowed: boolean attention mask, broadcasts to (*lead, T, S); True = may attend.
        causal: whether later keys are masked; the last query is at the position of the last key.
    """

    def __init__(
        self,
        lead: tuple[int, ...],
        T: int,
        S: int,
        allowed: Mask,
        causal: bool,
        dtype: Any,
    ) -> None:
        self.lead, self.T, self.S = lead, T, S
        self.lag = S - T if causal else None  # query t may attend to the keys up to t + lag
        self._bias = None  # 0 or -∞; rows are keys, columns queries
        if allowed is not None:
            shape = (1,) * (len(lead) + 2 - allowed.ndim) + allowed.shape
            bias = _log_mask(allowed.reshape(shape), dtype).swapaxes(-1, -2)
            self._bias = np.ascontiguousarray(bias)
        self._diagonals: dict[Any, Array] = {}
        # Whether there may be a query for which no key is allowed.
        self.may_have_no_key = allowed is not None or (causal and S < T)

    def tiles(self) -> Iterator[tuple[Part, slice, list[slice]]]:
        """A part, some of its queries, and the tiles of keys that these may attend to."""
        few, many = QUERIES
        width = min(max(few, self.T // 8), many)
        for part in _parts(self.lead, min(width, self.T) * min(KEYS, self.S)):
            for start in range(0, self.T, width):
                queries = slice(start, min(start + width, self.T))
                yield part, queries, list(self._keys(part, queries))

    def _keys(self, part: Part, queries: slice) -> Iterator[slice]:
        """Tiles of keys, except those to which none of the queries may attend."""
        stop = self.S if self.lag is None else min(self.S, queries.stop + self.lag)
        for start in range(0, stop, KEYS):
            keys = slice(start, min(start + KEYS, stop))
            bias = self._bias_of(part, queries, keys)
            if bias is None or bias.max() == 0:
                yield keys

    def hide(self, scores: Array, part: Part, queries: slice, keys: slice) -> None:
        """Set the scores of masked pairs in a tile to -∞; rows are keys, columns queries."""
        if self.lag is not None:
            # The first row masked from the first query; below 0 if that key is before the tile.
            later = queries.start + self.lag + 1 - keys.start
            late = scores[..., max(0, later) :, :]
            if late.shape[-2]:
                late += self._diagonal(late.shape[-2:], max(0, -later), scores.dtype)
        self.hide_masked(scores, part, queries, keys)

    def hide_masked(self, scores: Array, part: Part, queries: slice, keys: slice) -> None:
        """`hide` without the causal mask."""
        bias = self._bias_of(part, queries, keys)
        if bias is not None:
            scores += bias

    def ahead(self, queries: slice, keys: slice) -> int:
        """The causal mask of a tile: query j may attend to key i if i ≤ j + ahead."""
        if self.lag is None:
            return int(keys.stop - keys.start)
        return int(queries.start + self.lag - keys.start)

    def allowed(self, head: tuple[int, ...]) -> Array:
        """Which keys each query of one head may attend to, (T, S)."""
        may = np.ones((self.T, self.S), dtype=bool)
        if self.lag is not None:
            may = np.arange(self.S) <= np.arange(self.T)[:, None] + self.lag
        part = tuple(slice(i, i + 1) for i in head)
        bias = self._bias_of(part, slice(0, self.T), slice(0, self.S))
        return may if bias is None else may & (bias.reshape(bias.shape[-2:]).T == 0)

    def _diagonal(self, shape: tuple[int, int], ahead: int, dtype: Any) -> Array:
        """0 where query j may attend to key i, else -∞.

        Query j may attend to the first j - `ahead` of these keys; query 0 to none of them.
        """
        if (shape, ahead) not in self._diagonals:
            K, Q = shape
            past = np.arange(K)[:, None] + ahead < np.arange(Q)
            self._diagonals[shape, ahead] = _log_mask(past, dtype)
        return self._diagonals[shape, ahead]

    def _bias_of(self, part: Part, queries: slice, keys: slice) -> Array | None:
        """The part of the mask that belongs to a tile; axes of size 1 stay so."""
        if self._bias is None:
            return None
        whole = slice(None)
        index = (*part, *[whole] * (len(self.lead) - len(part)), keys, queries)
        return self._bias[
            tuple(whole if n == 1 else i for i, n in zip(index, self._bias.shape, strict=True))
        ]


def _parts(lead: tuple[int, ...], width: int) -> Iterator[Part]:
    """The leading axes in parts of about a tile, if each index has `width` elements."""
    if not lead:
        yield ()
        return
    for some in tiles(lead[0], math.prod(lead[1:]) * width):
        if some.stop - some.start > 1:
            yield (some,)
        else:  # perhaps even one is too large
            yield from ((some, *more) for more in _parts(lead[1:], width))


def _log_mask(allowed: Array, dtype: Any) -> Array:
    """0 where allowed, -∞ elsewhere: added to scores, it gives masked pairs the weight 0."""
    return np.where(allowed, dtype.type(0), dtype.type(-math.inf))
