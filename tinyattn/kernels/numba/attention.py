"""Engine room, Numba: FlashAttention whose softmax and dropout are compiled loops.

The tiles and the matrix products are those of kernels/cpu/attention.py. Between two products the
loops pass over a tile once, and skip the pairs that a causal mask hides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.attention import computed, product, transposed, transposed_copy
from tinyattn.kernels.cpu.pairs import Pairs, Part
from tinyattn.kernels.cpu.tiles import scratch
from tinyattn.kernels.register import kernel
from tinyattn.op import Mask
from tinyattn.rng import DropoutMask, DropoutRNG, row_keys


def _why_not(
    xp: Any, q: Array, k: Array, v: Array, allowed: Mask = None, *, causal: bool = False,
    scale: float | None = None, dropout: float = 0.0, dropout_rng: DropoutRNG | None = None,
) -> str:  # fmt: skip
    """Needs float32."""
    return "" if q.dtype == k.dtype == v.dtype == np.float32 else "not float32"


@kernel("attention", "numba", _why_not)
def attention(
    xp: Any,
    q: Array,
    k: Array,
    v: Array,
    allowed: Mask = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_rng: DropoutRNG | None = None,
) -> Any:
    """`ops.attention`, tile by tile; for one query, and no mask, in one loop over all keys."""
    return computed(_of_one_query, _by_tiles, q, k, v, allowed, causal, scale, dropout, dropout_rng)


def _of_one_query(q: Array, k: Array, v: Array, scale: float | None) -> Array:
    """The output (B, H, 1, E), in one loop over the keys."""
    from tinyattn.kernels.numba import loops

    B, H, _, D = q.shape
    scale = 1 / math.sqrt(max(1, D)) if scale is None else scale
    y = np.empty((B, H, v.shape[-1]), q.dtype)
    (k_rows, k_steps), (v_rows, v_steps) = _rows(k), _rows(v)
    loops.one_query(np.ascontiguousarray(q[:, :, 0]), k_rows, v_rows, k_steps, v_steps,
                    k.shape[2], np.float32(scale), y)  # fmt: skip
    return y[:, :, None]


def _rows(a: Array) -> tuple[Array, tuple[int, int]]:
    """The rows of a (B, H, S, D) where they are, for instance in a cache with room for more keys.

    Returns: all rows (R, D) from the first to the last, and the numbers of rows between two
        sequences and between two heads.
    """
    width = a.shape[-1] * a.itemsize
    if a.strides[2:] != (width, a.itemsize) or any(n < 0 or n % width for n in a.strides[:2]):
        a = np.ascontiguousarray(a)
    B, H, S, D = a.shape
    steps = a.strides[0] // width, a.strides[1] // width
    count = (B - 1) * steps[0] + (H - 1) * steps[1] + S
    shape, strides = (count, D), (width, a.itemsize)
    return np.lib.stride_tricks.as_strided(a, shape, strides, writeable=False), steps


def _by_tiles(
    q: Array, k: Array, v: Array, y: Array, pairs: Pairs, drops: DropoutMask | None,
    scale: float, upscale: float,
) -> Any:  # fmt: skip
    """Compute the outputs into y, one tile of keys after the other. Returns: g -> dq, dk, dv."""
    from tinyattn.kernels.numba import loops

    E = v.shape[-1]
    log_total = np.empty((*pairs.lead, pairs.T), dtype=q.dtype)  # ln Σ_s exp(score)

    def scores(part: Part, queries: slice, keys: slice, q_transposed: Array) -> Array:
        """(N, K, Q): the scores of a tile, for all N heads of the part."""
        x = product("scores", k[part][..., keys, :], q_transposed)
        pairs.hide_masked(x, part, queries, keys)
        return x.reshape(-1, *x.shape[-2:])

    if drops is not None:
        rows, least, _, _ = row_keys(np, drops, (*pairs.lead, pairs.S, pairs.T))
        rows, least = (a.reshape(*pairs.lead, pairs.S) for a in (rows, least))
        key = np.uint32(drops.key & 0xFFFFFFFF)

    def thinned(weights: Array, part: Part, keys: slice, queries: slice) -> Array:
        """The weights of a tile, 0 where dropout drops them."""
        if drops is None:
            return weights
        used = scratch.array("used", weights.shape, weights.dtype)
        drawn = (a[part][..., keys].reshape(-1) for a in (rows, least))
        loops.drop_weights(weights, *drawn, queries.start, key, used)
        return used

    for part, queries, tiles in pairs.tiles():
        q_transposed = transposed_copy(q[part][..., queries, :])
        q_transposed *= scale
        *lead, _, Q = q_transposed.shape
        N = math.prod(lead)
        largest = np.full((N, Q), -math.inf, dtype=q.dtype)
        total = np.zeros((N, Q), dtype=q.dtype)
        sums = np.zeros((*lead, Q, E), dtype=q.dtype)
        for keys in tiles:
            x = scores(part, queries, keys, q_transposed)
            loops.online_softmax(
                x, pairs.ahead(queries, keys), largest, total, sums.reshape(N, Q, E)
            )
            shape = (*lead, x.shape[-2], Q)
            used = thinned(x, part, keys, queries).reshape(shape)
            sums += product("sum", transposed(used), v[part][..., keys, :])
        total = np.maximum(total, 1)  # it contains exp(0) = 1, or is empty
        largest[largest == -math.inf] = 0
        y[part][..., queries, :] = sums * (upscale / total).reshape(*lead, Q, 1)
        log_total[part][..., queries] = (largest + np.log(total)).reshape(*lead, Q)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (np.zeros_like(a) for a in (q, k, v))
        for part, queries, tiles in pairs.tiles():
            q_rows = np.array(q[part][..., queries, :], order="C")
            q_rows *= scale
            q_transposed = transposed_copy(q_rows)
            g_rows = np.array(g[part][..., queries, :], order="C")
            # Σ_j g·y; a matrix product with a vector of ones is a fast sum.
            inner = np.matmul(g_rows * y[part][..., queries, :], np.ones(E, dtype=g.dtype))
            g_rows *= upscale
            g_transposed = transposed_copy(g_rows)
            *lead, Q = inner.shape
            totals = np.ascontiguousarray(log_total[part][..., queries]).reshape(-1, Q)
            for keys in tiles:
                p = scores(part, queries, keys, q_transposed)
                loops.weigh(p, pairs.ahead(queries, keys), totals)
                shape = (*lead, p.shape[-2], Q)
                used = thinned(p, part, keys, queries)
                dv[part][..., keys, :] += product("sum", used.reshape(shape), g_rows)
                ds = product("slopes", v[part][..., keys, :], g_transposed)
                loops.slopes_of_scores(ds.reshape(p.shape), used, p, inner.reshape(-1, Q))
                dq[part][..., queries, :] += product("sum", transposed(ds), k[part][..., keys, :])
                dk[part][..., keys, :] += product("sum", ds, q_rows)
        dq *= scale
        return dq, dk, dv

    return vjp
