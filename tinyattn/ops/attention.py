"""Chapter 3, continued: scaled dot-product attention as one operation.

Built of matmul, softmax and matmul it needs arrays of T × S numbers, for which long texts leave no
room. But an answer is a weighted mean, and a mean can be taken over one block of keys after the
other: when a larger score turns up, what was added up so far is scaled down. The weights are not
kept; the way back computes them again, block by block. So memory grows with T and not with its
square (derivations/06_attention.md), but for a mask, and on a GPU, which takes all in one block.
Where that meets ∞ or NaN, it is done again by selection (selected.py).
The chapter on attention (`tinyattn/attention/`) builds on it. Next: the same on a GPU (cuda/), or,
without, the checks of all these gradients (gradcheck.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.noise import Noise, Site, check_rate
from tinyattn.op import Mask, op
from tinyattn.ops.selected import Selection
from tinyattn.ops.tiling import Part, Tiling


@op
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
    """For each query, the mean of the values, weighted by how well their keys match the query.

    Forward:  y = U v; P = softmax(scale·q kᵀ) over the keys that are allowed; U = P, or with
              dropout P·keep/(1 - dropout); a query for which nothing is allowed gets zeros
    Backward: dv = Uᵀ g; dS = U·(g vᵀ) - P·Σ_j g·y; dq = scale·dS k; dk = scale·dSᵀ q
    Shapes:   q (..., T, D), k (..., S, D), v (..., S, E) -> y (..., T, E); allowed broadcasts to
              (..., T, S), True = may attend
    Units:    scale·q kᵀ nats
    Raises:   ValueError if sizes do not fit, or dropout is not a rate (noise.py); TypeError if
              allowed is not boolean
    Source:   Vaswani and others 2017, equation 1; block by block as in Dao and others 2022

    Args:
        causal: whether later keys are hidden; the last query stands at the last key.
        scale: by default 1/√D.
        dropout: the share of the weights that is dropped.
        noise: where the bits `keep` come from; None means that nothing is dropped.

    What keys and values are where they are hidden does not matter, be it ∞ or NaN.
    """
    check_attention(q, k, v)
    check_rate(dropout, "attention: dropout")
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    y_like = q  # in memory, y is to lie as q does
    q, k, v = _one_lead(xp, q, k, v)
    lead, T, S, E = q.shape[:-2], q.shape[-2], k.shape[-2], v.shape[-1]
    tiling = Tiling(xp, lead, T, S, allowed, causal, q.dtype)
    drops = noise.site(dropout) if noise is not None and dropout else None
    upscale = 1 / (1 - dropout) if drops else 1.0
    y = _empty_like(xp, y_like, (*lead, T, E))
    selection = Selection(xp, q, k, v, tiling, drops, scale, upscale)
    with np.errstate(invalid="ignore", over="ignore"):  # such numbers are seen to below
        by_blocks = _by_blocks(xp, q, k, v, y, tiling, drops, scale, upscale)
    if not _finite(xp, y):
        return selection.answers(y), lambda g: (*selection.gradients(g), None)

    def vjp(g: Array) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore", over="ignore"):
            found = by_blocks(g)
        # What y has not shown, a hidden key of -∞ or a query that sees nothing, shows in these.
        if not (_finite(xp, found[0]) and _finite(xp, found[1])):
            found = selection.gradients(g)
        return *found, None

    return y, vjp


def _by_blocks(
    xp: Any, q: Array, k: Array, v: Array, y: Array, tiling: Tiling, drops: Site | None,
    scale: float, upscale: float,
) -> Any:  # fmt: skip
    """Into y: the answers, one block of keys after the other. Returns: g -> dq, dk, dv."""
    E = v.shape[-1]
    pairs = _Pairs(xp, k, tiling, drops)
    log_total = xp.empty((*tiling.lead, 1, tiling.T), dtype=q.dtype)  # ln Σ_s exp(score)

    for part, queries, blocks in tiling.blocks():
        q_turned = _turned_copy(xp, q[part][..., queries, :])
        q_turned *= scale
        found = _Found(xp, q_turned, E, tiling.may_see_nothing)
        for keys in blocks:
            e = found.rise(pairs.scores(part, queries, keys, q_turned))
            found.add(e, pairs.thinned(e, part, queries, keys), v[part][..., keys, :])
        y[part][..., queries, :], log_total[part][..., queries] = found.mean(upscale)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (xp.zeros_like(a) for a in (q, k, v))
        for part, queries, blocks in tiling.blocks():
            q_rows = xp.array(q[part][..., queries, :], order="C")
            q_rows *= scale
            q_turned = _turned_copy(xp, q_rows)
            g_rows = xp.array(g[part][..., queries, :], order="C")
            # Σ_j g·y; a product with a vector of ones is a fast sum.
            inner = xp.matmul(g_rows * y[part][..., queries, :], xp.ones(E, dtype=g.dtype))
            g_rows *= upscale
            g_turned = _turned_copy(xp, g_rows)
            for keys in blocks:
                p = pairs.scores(part, queries, keys, q_turned)
                p -= log_total[part][..., queries]
                xp.exp(p, out=p)
                used = pairs.thinned(p, part, queries, keys)
                dv[part][..., keys, :] += xp.matmul(used, g_rows)
                ds = xp.matmul(v[part][..., keys, :], g_turned)
                ds *= used
                p *= inner[..., None, :]
                ds -= p
                dq[part][..., queries, :] += xp.matmul(_turn(ds), k[part][..., keys, :])
                dk[part][..., keys, :] += xp.matmul(ds, q_rows)
        dq *= scale
        return dq, dk, dv

    return vjp


class _Pairs:
    """Queries and keys in blocks, in which keys stand down and queries across.

    Maxima over keys then run down columns, which is several times faster than along rows.
    """

    def __init__(self, xp: Any, k: Array, tiling: Tiling, drops: Site | None) -> None:
        self.xp, self.k, self.tiling, self.drops = xp, k, tiling, drops

    def scores(self, part: Part, queries: slice, keys: slice, q_turned: Array) -> Array:
        """Their products, -∞ for what is hidden."""
        x = self.xp.matmul(self.k[part][..., keys, :], q_turned)
        self.tiling.hide(x, part, queries, keys)
        return x

    def thinned(self, weights: Array, part: Part, queries: slice, keys: slice) -> Array:
        """What dropout leaves of their weights."""
        if self.drops is None:
            return weights
        corner = [axis.start for axis in part] + [0] * (len(self.tiling.lead) - len(part))
        corner += [keys.start, queries.start]
        return weights * self.drops.keep(self.xp, weights.shape, tuple(corner))


class _Found:
    """What some queries have found in the keys that they have asked so far.

    The largest score m, the total Σ exp(x - m), and the sum Σ exp(x - m)·v, not yet divided.
    """

    def __init__(self, xp: Any, q_turned: Array, E: int, may_see_nothing: bool) -> None:
        self.xp, self.may_see_nothing = xp, may_see_nothing
        *lead, _, Q = q_turned.shape
        self.largest = xp.full((*lead, 1, Q), -math.inf, dtype=q_turned.dtype)
        self.total = xp.zeros((*lead, 1, Q), dtype=q_turned.dtype)
        self.sum = xp.zeros((*lead, Q, E), dtype=q_turned.dtype)

    def rise(self, x: Array) -> Array:
        """exp(x - m) of new scores, in their place; m rises if they have a larger one."""
        xp, before = self.xp, self.largest
        self.largest = shift = xp.maximum(before, x.max(axis=-2, keepdims=True))
        if self.may_see_nothing:  # exp(-∞ - 0) is 0, but -∞ - -∞ would be NaN
            shift = xp.where(shift == -math.inf, 0, shift)
        shrink = xp.exp(before - shift)
        self.total *= shrink
        self.sum *= _turn(shrink)
        x -= shift
        return xp.exp(x, out=x)

    def add(self, e: Array, used: Array, values: Array) -> None:
        """Add new keys' exp(x - m), and their values, weighted with what dropout left of it."""
        self.total += self.xp.matmul(self.xp.ones(e.shape[-2:-1], e.dtype), e)[..., None, :]
        self.sum += self.xp.matmul(_turn(used), values)

    def mean(self, upscale: float) -> tuple[Array, Array]:
        """The answers, and ln Σ exp(x); 0 and 0 for a query that saw nothing."""
        xp = self.xp
        total = xp.maximum(self.total, 1)  # exp(0) is in it, or nothing at all
        self.sum *= upscale / _turn(total)
        if self.may_see_nothing:
            self.largest[self.largest == -math.inf] = 0
        return self.sum, self.largest + xp.log(total)


def _finite(xp: Any, a: Array) -> bool:
    """Whether all numbers are finite."""
    return bool(xp.isfinite(a).all())


def _one_lead(xp: Any, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    """The three with equal leading axes, without copies."""
    if q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return q, k, v
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    return tuple(xp.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (q, k, v))


def _turn(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def _turned_copy(xp: Any, a: Array) -> Any:
    """Each matrix transposed, in memory too, which makes small products faster."""
    return xp.array(_turn(a), order="C")


def _empty_like(xp: Any, like: Array, shape: tuple[int, ...]) -> Array:
    """Room for `shape`, in the memory order of `like` if that has the same shape.

    Heads are views of (B, T, H, D); results laid out likewise merge back without a copy.
    """
    return xp.empty_like(like) if shape == like.shape else xp.empty(shape, dtype=like.dtype)


def check_attention(q: Array, k: Array, v: Array) -> None:
    """Raises: ValueError if q, k and v do not fit each other."""
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(
            f"attention: q, k and v must be (..., length, width); got {q.shape}, {k.shape}, "
            f"{v.shape}"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention: q and k must be equally wide; got {q.shape} and {k.shape}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"attention: each key needs one value; got k {k.shape}, v {v.shape}")
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(
            "attention: the axes before length and width must be equal in q, k and v, or 1; got "
            f"{q.shape}, {k.shape}, {v.shape}"
        ) from None
