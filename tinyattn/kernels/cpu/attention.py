"""Engine room, CPU: attention, one tile of keys after the other.

The formula needs arrays of T × S numbers, for which long sequences leave no room. But an answer is
a weighted mean, and a mean can be taken over one tile of keys after the other: when a larger score
turns up, what was added up so far is scaled down. The weights are not kept; the way back computes
them again, tile by tile. So memory grows with T and not with its square
(derivations/06_attention.md), but for a mask. Where that meets ∞ or NaN, it is done again by
selection (selected.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.dropout import keep
from tinyattn.kernels.cpu.pairs import Pairs, Part
from tinyattn.kernels.cpu.selected import Selection
from tinyattn.kernels.table import kernel
from tinyattn.noise import Noise, Site
from tinyattn.op import Mask


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
    noise: Noise | None = None,
) -> Any:
    """`ops.attention`, tile by tile as in Dao and others 2022 (FlashAttention)."""
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    y_like = q  # in memory, y is to lie as q does
    q, k, v = _one_lead(q, k, v)
    lead, T, S, E = q.shape[:-2], q.shape[-2], k.shape[-2], v.shape[-1]
    pairs = Pairs(lead, T, S, allowed, causal, q.dtype)
    drops = noise.site(dropout) if noise is not None and dropout else None
    upscale = 1 / (1 - dropout) if drops else 1.0
    y = _empty_like(y_like, (*lead, T, E))
    selection = Selection(q, k, v, pairs, drops, scale, upscale)
    with np.errstate(invalid="ignore", over="ignore"):  # such numbers are seen to below
        by_tiles = _by_tiles(q, k, v, y, pairs, drops, scale, upscale)
    if not _finite(y):
        return selection.answers(y), lambda g: (*selection.gradients(g), None)

    def vjp(g: Array) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore", over="ignore"):
            found = by_tiles(g)
        # What y has not shown, a hidden key of -∞ or a query that sees nothing, shows in these.
        if not (_finite(found[0]) and _finite(found[1])):
            found = selection.gradients(g)
        return *found, None

    return y, vjp


def _by_tiles(
    q: Array, k: Array, v: Array, y: Array, pairs: Pairs, drops: Site | None,
    scale: float, upscale: float,
) -> Any:  # fmt: skip
    """Into y: the answers, one tile of keys after the other. Returns: g -> dq, dk, dv."""
    E = v.shape[-1]
    scores = _Scores(k, pairs, drops)
    log_total = np.empty((*pairs.lead, 1, pairs.T), dtype=q.dtype)  # ln Σ_s exp(score)

    for part, queries, tiles in pairs.tiles():
        q_turned = _turned_copy(q[part][..., queries, :])
        q_turned *= scale
        found = _Found(q_turned, E, pairs.may_see_nothing)
        for keys in tiles:
            e = found.rise(scores.of(part, queries, keys, q_turned))
            found.add(e, scores.thinned(e, part, queries, keys), v[part][..., keys, :])
        y[part][..., queries, :], log_total[part][..., queries] = found.mean(upscale)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (np.zeros_like(a) for a in (q, k, v))
        for part, queries, tiles in pairs.tiles():
            q_rows = np.array(q[part][..., queries, :], order="C")
            q_rows *= scale
            q_turned = _turned_copy(q_rows)
            g_rows = np.array(g[part][..., queries, :], order="C")
            # Σ_j g·y; a product with a vector of ones is a fast sum.
            inner = np.matmul(g_rows * y[part][..., queries, :], np.ones(E, dtype=g.dtype))
            g_rows *= upscale
            g_turned = _turned_copy(g_rows)
            for keys in tiles:
                p = scores.of(part, queries, keys, q_turned)
                p -= log_total[part][..., queries]
                np.exp(p, out=p)
                used = scores.thinned(p, part, queries, keys)
                dv[part][..., keys, :] += np.matmul(used, g_rows)
                ds = np.matmul(v[part][..., keys, :], g_turned)
                ds *= used
                p *= inner[..., None, :]
                ds -= p
                dq[part][..., queries, :] += np.matmul(_turn(ds), k[part][..., keys, :])
                dk[part][..., keys, :] += np.matmul(ds, q_rows)
        dq *= scale
        return dq, dk, dv

    return vjp


class _Scores:
    """Scores of tiles, in which keys stand down and queries across.

    Maxima over keys then run down columns, which is several times faster than along rows.
    """

    def __init__(self, k: Array, pairs: Pairs, drops: Site | None) -> None:
        self.k, self.pairs, self.drops = k, pairs, drops

    def of(self, part: Part, queries: slice, keys: slice, q_turned: Array) -> Array:
        """Their products, -∞ for what is hidden."""
        x = np.matmul(self.k[part][..., keys, :], q_turned)
        self.pairs.hide(x, part, queries, keys)
        return x

    def thinned(self, weights: Array, part: Part, queries: slice, keys: slice) -> Array:
        """What dropout leaves of their weights."""
        if self.drops is None:
            return weights
        corner = [axis.start for axis in part] + [0] * (len(self.pairs.lead) - len(part))
        corner += [keys.start, queries.start]
        return weights * keep(self.drops, weights.shape, tuple(corner))


class _Found:
    """What some queries have found in the keys that they have asked so far.

    The largest score m, the total Σ exp(x - m), and the sum Σ exp(x - m)·v, not yet divided.
    """

    def __init__(self, q_turned: Array, E: int, may_see_nothing: bool) -> None:
        self.may_see_nothing = may_see_nothing
        *lead, _, Q = q_turned.shape
        self.largest = np.full((*lead, 1, Q), -math.inf, dtype=q_turned.dtype)
        self.total = np.zeros((*lead, 1, Q), dtype=q_turned.dtype)
        self.sum = np.zeros((*lead, Q, E), dtype=q_turned.dtype)

    def rise(self, x: Array) -> Array:
        """exp(x - m) of new scores, in their place; m rises if they have a larger one."""
        before = self.largest
        self.largest = shift = np.maximum(before, x.max(axis=-2, keepdims=True))
        if self.may_see_nothing:  # exp(-∞ - 0) is 0, but -∞ - -∞ would be NaN
            shift = np.where(shift == -math.inf, 0, shift)
        shrink = np.exp(before - shift)
        self.total *= shrink
        self.sum *= _turn(shrink)
        x -= shift
        return np.exp(x, out=x)

    def add(self, e: Array, used: Array, values: Array) -> None:
        """Add new keys' exp(x - m), and their values, weighted with what dropout left of it."""
        self.total += np.matmul(np.ones(e.shape[-2:-1], e.dtype), e)[..., None, :]
        self.sum += np.matmul(_turn(used), values)

    def mean(self, upscale: float) -> tuple[Array, Array]:
        """The answers, and ln Σ exp(x); 0 and 0 for a query that saw nothing."""
        total = np.maximum(self.total, 1)  # exp(0) is in it, or nothing at all
        self.sum *= upscale / _turn(total)
        if self.may_see_nothing:
            self.largest[self.largest == -math.inf] = 0
        return self.sum, self.largest + np.log(total)


def _finite(a: Array) -> bool:
    """Whether all numbers are finite."""
    return bool(np.isfinite(a).all())


def _one_lead(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    """The three with equal leading axes, without copies."""
    if q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return q, k, v
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    return tuple(np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (q, k, v))


def _turn(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def _turned_copy(a: Array) -> Any:
    """Each matrix transposed, in memory too, which makes small products faster."""
    return np.array(_turn(a), order="C")


def _empty_like(like: Array, shape: tuple[int, ...]) -> Array:
    """Room for `shape`, in the memory order of `like` if that has the same shape.

    Heads are views of (B, T, H, D); results laid out likewise merge back without a copy.
    """
    return np.empty_like(like) if shape == like.shape else np.empty(shape, dtype=like.dtype)
