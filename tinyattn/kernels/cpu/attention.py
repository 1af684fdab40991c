"""Engine room, CPU: FlashAttention, attention one tile of keys after the other.

The formula needs arrays of T × S elements, too large for long sequences. But an output is a
weighted mean of values, and such a mean can be computed tile by tile (online softmax: Milakov and
Gimelshein 2018; Dao and others 2022). When a tile has a larger score than all tiles before it, the
sums so far are scaled down. The weights are not kept; backward computes them again, tile by tile.
So memory grows with T and not with T² (derivations/06_attention.md), except for a mask, which has
T × S elements. If a result is ∞ or NaN, selected.py computes it again without masked pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.dropout import keep
from tinyattn.kernels.cpu.pairs import Pairs, Part
from tinyattn.kernels.cpu.selected import Selection
from tinyattn.kernels.cpu.tiles import scratch
from tinyattn.kernels.register import kernel
from tinyattn.op import Mask
from tinyattn.rng import DropoutMask, DropoutRNG


@kernel("attention", "cpu")
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
    """`ops.attention`, tile by tile as in FlashAttention (Dao and others 2022)."""
    return computed(_of_one_query, _by_tiles, q, k, v, allowed, causal, scale, dropout, dropout_rng)


def computed(
    of_one_query: Any, by_tiles: Any, q: Array, k: Array, v: Array, allowed: Mask, causal: bool,
    scale: float | None, dropout: float, dropout_rng: DropoutRNG | None,
) -> Any:  # fmt: skip
    """Attention by one of two functions: `of_one_query` if each sequence has one query, and no mask
    or dropout, as in generation with a cache; otherwise `by_tiles`, see `tiled`.

    A causal mask of a single query, the last one, hides no key.
    """
    one = q.ndim == 4 and q.shape[-2] == 1 and allowed is None and not (dropout and dropout_rng)
    same = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if one and same and q.size and v.size:
        y = of_one_query(q, k, v, scale)
        if _finite(y):
            return y, lambda g: tiled(by_tiles, q, k, v, None, False, scale, 0.0, None)[1](g)
    return tiled(by_tiles, q, k, v, allowed, causal, scale, dropout, dropout_rng)


def _of_one_query(q: Array, k: Array, v: Array, scale: float | None) -> Array:
    """The output for one query of each sequence; all its scores are in one row."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    with np.errstate(invalid="ignore", over="ignore"):
        p = np.matmul(k, transposed(q * scale))[..., 0]
        p -= p.max(axis=-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=-1, keepdims=True)
        return np.matmul(p[..., None, :], v)


def tiled(
    by_tiles: Any, q: Array, k: Array, v: Array, allowed: Mask, causal: bool, scale: float | None,
    dropout: float, dropout_rng: DropoutRNG | None,
) -> Any:  # fmt: skip
    """Attention whose outputs and gradients `by_tiles` computes, if all of them are finite."""
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    y_like = q  # y gets the memory layout of q
    q, k, v = _one_lead(q, k, v)
    lead, T, S, E = q.shape[:-2], q.shape[-2], k.shape[-2], v.shape[-1]
    pairs = Pairs(lead, T, S, allowed, causal, q.dtype)
    drops = dropout_rng.mask(dropout) if dropout_rng is not None and dropout else None
    upscale = 1 / (1 - dropout) if drops else 1.0
    y = _empty_like(y_like, (*lead, T, E))
    selection = Selection(q, k, v, pairs, drops, scale, upscale)
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ and NaN are handled below
        gradients = by_tiles(q, k, v, y, pairs, drops, scale, upscale)
    if not _finite(y):
        return selection.outputs(y), lambda g: (*selection.gradients(g), None)

    def vjp(g: Array) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore", over="ignore"):
            found = gradients(g)
        # A masked key of -∞, or a query without keys, shows in these gradients and not in y.
        if not (_finite(found[0]) and _finite(found[1])):
            found = selection.gradients(g)
        return *found, None

    return y, vjp


def _by_tiles(
    q: Array, k: Array, v: Array, y: Array, pairs: Pairs, drops: DropoutMask | None,
    scale: float, upscale: float,
) -> Any:  # fmt: skip
    """Compute the outputs into y, one tile of keys after the other. Returns: g -> dq, dk, dv."""
    E = v.shape[-1]
    scores = _Scores(k, pairs, drops)
    log_total = np.empty((*pairs.lead, 1, pairs.T), dtype=q.dtype)  # ln Σ_s exp(score)

    for part, queries, tiles in pairs.tiles():
        q_transposed = transposed_copy(q[part][..., queries, :])
        q_transposed *= scale
        found = _Found(q_transposed, E, pairs.may_have_no_key)
        for keys in tiles:
            e = found.rise(scores.of(part, queries, keys, q_transposed))
            found.add(e, scores.thinned(e, part, queries, keys), v[part][..., keys, :])
        y[part][..., queries, :], log_total[part][..., queries] = found.mean(upscale)

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
            for keys in tiles:
                p = scores.of(part, queries, keys, q_transposed)
                p -= log_total[part][..., queries]
                np.exp(p, out=p)
                used = scores.thinned(p, part, queries, keys)
                dv[part][..., keys, :] += product("sum", used, g_rows)
                ds = product("slopes", v[part][..., keys, :], g_transposed)
                ds *= used
                p *= inner[..., None, :]
                ds -= p
                dq[part][..., queries, :] += product("sum", transposed(ds), k[part][..., keys, :])
                dk[part][..., keys, :] += product("sum", ds, q_rows)
        dq *= scale
        return dq, dk, dv

    return vjp


class _Scores:
    """Scores of tiles, whose rows are keys and whose columns are queries.

    Maxima over keys then run down columns, which is several times faster than along rows.
    """

    def __init__(self, k: Array, pairs: Pairs, drops: DropoutMask | None) -> None:
        self.k, self.pairs, self.drops = k, pairs, drops

    def of(self, part: Part, queries: slice, keys: slice, q_transposed: Array) -> Array:
        """The scores of a tile, -∞ for masked pairs."""
        x = product("scores", self.k[part][..., keys, :], q_transposed)
        self.pairs.hide(x, part, queries, keys)
        return x

    def thinned(self, weights: Array, part: Part, queries: slice, keys: slice) -> Array:
        """The weights of a tile, 0 where dropout drops them."""
        if self.drops is None:
            return weights
        corner = [axis.start for axis in part] + [0] * (len(self.pairs.lead) - len(part))
        corner += [keys.start, queries.start]
        return weights * keep(self.drops, weights.shape, tuple(corner))


class _Found:
    """The online softmax of some queries, over the tiles of keys so far.

    The largest score m, the total Σ exp(x - m), and the sum Σ exp(x - m)·v, which is not yet
    divided by the total.
    """

    def __init__(self, q_transposed: Array, E: int, may_have_no_key: bool) -> None:
        self.may_have_no_key = may_have_no_key
        *lead, _, Q = q_transposed.shape
        self.largest = np.full((*lead, 1, Q), -math.inf, dtype=q_transposed.dtype)
        self.total = np.zeros((*lead, 1, Q), dtype=q_transposed.dtype)
        self.sum = np.zeros((*lead, Q, E), dtype=q_transposed.dtype)

    def rise(self, x: Array) -> Array:
        """exp(x - m) of a new tile's scores, in place. A larger score raises m, the sums shrink."""
        before = self.largest
        self.largest = shift = np.maximum(before, x.max(axis=-2, keepdims=True))
        if self.may_have_no_key:  # exp(-∞ - 0) is 0, but -∞ - -∞ would be NaN
            shift = np.where(shift == -math.inf, 0, shift)
        shrink = np.exp(before - shift)
        self.total *= shrink
        self.sum *= transposed(shrink)
        x -= shift
        return np.exp(x, out=x)

    def add(self, e: Array, used: Array, values: Array) -> None:
        """Add a new tile: e = exp(x - m), and its values, weighted by `used`, e after dropout."""
        self.total += np.matmul(np.ones(e.shape[-2:-1], e.dtype), e)[..., None, :]
        self.sum += product("sum", transposed(used), values)

    def mean(self, upscale: float) -> tuple[Array, Array]:
        """The outputs, and ln Σ exp(x); both are 0 for a query without keys."""
        total = np.maximum(self.total, 1)  # it contains exp(0) = 1, or is empty
        self.sum *= upscale / transposed(total)
        if self.may_have_no_key:
            self.largest[self.largest == -math.inf] = 0
        return self.sum, self.largest + np.log(total)


def product(name: str, a: Array, b: Array) -> Array:
    """a @ b for equal leading axes, in an array that is used again (tiles.py)."""
    return np.matmul(a, b, out=scratch.array(name, (*a.shape[:-1], b.shape[-1]), a.dtype))


def _finite(a: Array) -> bool:
    """Whether all elements are finite."""
    return bool(np.isfinite(a).all())


def _one_lead(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    """q, k and v, broadcast to equal leading axes without copies."""
    if q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return q, k, v
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    return tuple(np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (q, k, v))


def transposed(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def transposed_copy(a: Array) -> Any:
    """Each matrix transposed by a copy, which makes small matrix products faster."""
    return np.array(transposed(a), order="C")


def _empty_like(like: Array, shape: tuple[int, ...]) -> Array:
    """An empty array of `shape`, with the memory layout of `like` if the shapes are equal.

    Heads are views of (B, T, H, D); a result with the same layout merges back without a copy.
    """
    return np.empty_like(like) if shape == like.shape else np.empty(shape, dtype=like.dtype)
