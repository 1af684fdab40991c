"""Pairs of queries and keys in tiles: each allowed pair once, and no later keys."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from tinyattn.attention import causal
from tinyattn.kernels.cpu import pairs, tiles


def test_causal_tiles_leave_out_later_keys() -> None:
    with mock.patch.object(pairs, "QUERIES", (3, 3)), mock.patch.object(pairs, "KEYS", 4):
        cut = list(pairs.Pairs((), 8, 8, None, True, np.dtype("f4")).tiles())
    assert cut == [((), slice(0, 3), [slice(0, 3)]),
                   ((), slice(3, 6), [slice(0, 4), slice(4, 6)]),
                   ((), slice(6, 8), [slice(0, 4), slice(4, 8)])]  # fmt: skip


@given(
    hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=4, max_side=7)),
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 300), st.booleans(),
)  # fmt: skip
def test_every_allowed_pair_is_in_one_tile(
    seen: np.ndarray, queries: int, keys: int, tile: int, is_causal: bool
) -> None:
    *lead, T, S = seen.shape
    with (
        mock.patch.object(pairs, "QUERIES", (queries, queries)),
        mock.patch.object(pairs, "KEYS", keys),
        mock.patch.object(tiles, "TILE", tile),
    ):
        all_pairs = pairs.Pairs(tuple(lead), T, S, seen, is_causal, np.dtype("f4"))
        cut = list(all_pairs.tiles())
    times, hidden = np.zeros(seen.shape, int), np.zeros(seen.shape)
    for part, some_queries, key_tiles in cut:
        for some_keys in key_tiles:
            place = (*part, ..., some_queries, some_keys)
            times[place] += 1
            scores = np.zeros(times[place].swapaxes(-1, -2).shape, np.float32)
            all_pairs.hide(scores, part, some_queries, some_keys)
            hidden[place] = scores.swapaxes(-1, -2)
    assert times.max() <= 1
    really = seen & causal(T, S) if is_causal else seen
    assert times[really].all()
    assert_array_equal(np.isneginf(hidden)[times > 0], ~really[times > 0])
