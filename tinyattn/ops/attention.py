"""Chapter 3, continued: scaled dot-product attention as one operation.

Built of matmul, softmax and matmul it needs two arrays of T × S numbers at once, and passes over
them again and again. Written as one operation it needs one, never divides it, works on it piece by
piece in the cache, and leaves out most of the future (derivations/06_attention.md); a GPU prefers
it whole. The chapter on attention (`tinyattn/attention/`) builds on it. Next: checking all these
gradients.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinyattn.backend import Array, tiles
from tinyattn.noise import Noise, check_rate
from tinyattn.op import Mask, op
from tinyattn.ops.softmax import log_mask

KEYS_OF_A_BLOCK = 64
"""Fewer leave out more of the future, but make slower products: at T = 128, with 32 attention takes
longer than with 64, and with 128, which leaves out nothing, longer still."""


@op
def attention(
    xp: Any,
    q: Array,
    k: Array,
    v: Array,
    allowed: Mask = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    noise: Noise | None = None,
) -> Any:
    """For each query, the mean of the values, weighted by how well their keys match the query.

    Forward:  y = P v, P = softmax(scale·q kᵀ) over the keys that are allowed; a query for which
              nothing is allowed gets zeros
    Backward: dv = Pᵀ g; dP = g vᵀ; dS = P·(dP - g·y); dq = scale·dS k; dk = scale·dSᵀ q
    Shapes:   q (..., T, D), k (..., S, D), v (..., S, E) -> y (..., T, E); allowed broadcasts to
              (..., T, S), True = may attend
    Units:    scale·q kᵀ nats
    Raises:   ValueError if sizes do not fit, or dropout is not a rate (noise.py); TypeError if
              allowed is not boolean
    Source:   Vaswani and others 2017, equation 1

    Args:
        scale: by default 1/√D.
        dropout: the share of the weights that is dropped; P·keep/(1 - dropout) replaces P.
        noise: where the bits `keep` come from; None means that nothing is dropped.
    """
    _check_shapes(q, k, v)
    check_rate(dropout, "attention: dropout")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    T, S = q.shape[-2], k.shape[-2]
    if allowed is not None and np.broadcast_shapes(allowed.shape, (*lead, T, S)) != (*lead, T, S):
        raise ValueError(f"attention: allowed must fit {(*lead, T, S)}; got {allowed.shape}")
    keep = noise.keep(xp, (*lead, S, T), dropout) if noise is not None and dropout else None
    upscale = 1 / (1 - dropout) if keep is not None else 1.0
    bias, spans = None, [(slice(0, S), slice(0, T))]
    if allowed is not None:
        mask = xp.atleast_2d(log_mask(xp, allowed, q.dtype))
        bias = xp.ascontiguousarray(_turn(mask))
        bias = xp.broadcast_to(bias, (*bias.shape[:-2], S, T))  # no copy
        # A GPU would have to wait for the answer, and likes one large product better than many.
        spans = _spans(np.atleast_2d(allowed), T, S) if xp is np else spans
    blocks = [
        _Block(keys, queries, xp.empty((*lead, keys.stop - keys.start, T - queries.start), q.dtype))
        for keys, queries in spans
    ]
    ones = xp.ones((1, S), dtype=q.dtype)
    total = xp.empty((*lead, 1, T), dtype=q.dtype)  # Σ_s e
    y = _empty_like(xp, q, (*lead, T, v.shape[-1]))
    # A few sequences at a time, so that their blocks stay in the cache.
    batched = q.ndim == k.ndim == v.ndim > 2 and len(q) == len(k) == len(v)
    width = max(math.prod(block.e.shape[1:]) for block in blocks)
    parts = list(tiles(lead[0], width, xp)) if batched else [...]

    def weigh(rows: Any) -> None:
        """Fill the blocks with exp(scores - largest)."""
        q_turned = _scaled_transpose(xp, q[rows], scale)
        largest = xp.full_like(total[rows], -math.inf)
        for keys, queries, e in blocks:
            x, m = e[rows], largest[..., queries]
            xp.matmul(k[rows][..., keys, :], q_turned[..., queries], out=x)
            if bias is not None:
                x += _rows_of(bias, rows, x.ndim)[..., keys, queries]
            xp.maximum(m, x.max(axis=-2, keepdims=True), out=m)
        if bias is not None:
            largest[largest == -math.inf] = 0  # exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
        for _, queries, e in blocks:
            x = e[rows]
            x -= largest[..., queries]
            xp.exp(x, out=x)

    def thinned(block: _Block, rows: Any) -> Array:
        """What dropout leaves of a block."""
        x = block.e[rows]
        return x if keep is None else x * keep[rows][..., block.keys, block.queries]

    def add_product(a: Array, b: Array, out: Array, block: _Block) -> None:
        """Add a b to what earlier blocks gave; the first has all queries, and nothing before it."""
        if block is blocks[0]:
            xp.matmul(a, b, out=out)
        else:
            out += xp.matmul(a, b)

    for rows in parts:
        weigh(rows)
        for block in blocks:
            keys, queries, e = block
            add_product(ones[:, keys], e[rows], total[rows][..., queries], block)  # a faster sum
            values, answers = v[rows][..., keys, :], y[rows][..., queries, :]
            add_product(_turn(thinned(block, rows)), values, answers, block)
        xp.maximum(total[rows], 1, out=total[rows])  # exp(m - m) is in it, or nothing at all
        part = y[rows]
        part *= upscale / _turn(total[rows])

    def vjp(g: Array) -> tuple[Array, Array, Array, None]:
        dq, dk, dv = (_empty_like(xp, a, (*lead, *a.shape[-2:])) for a in (q, k, v))
        for rows in parts:
            h = xp.array(g[rows], order="C")
            h *= upscale / _turn(total[rows])  # divides P here, where it is T × E, not S × T
            h_turned = _scaled_transpose(xp, h, scale)
            # Σ_s P·dP = Σ_j g·y; a product with a constant vector is a fast sum.
            inner = xp.matmul(h * y[rows], xp.full(v.shape[-1], scale / upscale, dtype=h.dtype))
            for block in blocks:
                keys, queries, e = block
                used = thinned(block, rows)
                xp.matmul(used, h[..., queries, :], out=dv[rows][..., keys, :])
                ds = xp.matmul(v[rows][..., keys, :], h_turned[..., queries])
                ds *= used
                ds -= e[rows] * inner[..., None, queries]
                add_product(_turn(ds), k[rows][..., keys, :], dq[rows][..., queries, :], block)
                xp.matmul(ds, q[rows][..., queries, :], out=dk[rows][..., keys, :])
        return dq, dk, dv, None

    return y, vjp


class _Block(NamedTuple):
    """Some keys, the queries from the first that may attend to one of them, and what they make.

    Keys stand down, queries across: the maxima over keys then run down columns, which is several
    times faster than along rows.
    """

    keys: slice
    queries: slice
    e: Array  # exp(scores - largest): Pᵀ before the division


def _spans(allowed: np.ndarray, T: int, S: int) -> list[tuple[slice, slice]]:
    """Keys in blocks, each with the queries from the first that sees one of them, if any does.

    In causal attention nearly half of all pairs are left out so: they lie in the future. The first
    block has all queries.
    """
    seen = np.broadcast_to(allowed.any(axis=tuple(range(allowed.ndim - 2))), (T, S))
    spans = [(slice(0, min(KEYS_OF_A_BLOCK, S)), slice(0, T))]
    for start in range(KEYS_OF_A_BLOCK, S, KEYS_OF_A_BLOCK):
        keys = slice(start, min(start + KEYS_OF_A_BLOCK, S))
        first = int(np.append(seen[:, keys].any(axis=1), True).argmax())
        if spans[-1][1].start == first:  # nothing to gain from two
            keys = slice(spans.pop()[0].start, keys.stop)
        spans.append((keys, slice(first, T)))
    return spans


def _turn(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def _scaled_transpose(xp: Any, a: Array, scale: float) -> Array:
    """Each matrix transposed and scaled, in memory too, which makes small products faster."""
    turned = xp.array(_turn(a), order="C")
    turned *= scale
    return turned


def _rows_of(bias: Array, rows: Any, ndim: int) -> Array:
    """The part of a mask that belongs to some rows, if it has rows of its own."""
    return bias[rows] if bias.ndim == ndim and len(bias) > 1 else bias


def _empty_like(xp: Any, like: Array, shape: tuple[int, ...]) -> Array:
    """Room for `shape`, in the memory order of `like` if that has the same shape.

    Heads are views of (B, T, H, D); results laid out likewise merge back without a copy.
    """
    return xp.empty_like(like) if shape == like.shape else xp.empty(shape, dtype=like.dtype)


def _check_shapes(q: Array, k: Array, v: Array) -> None:
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(
            f"attention: q, k and v must be (..., length, width); got {q.shape}, {k.shape}, "
            f"{v.shape}"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention: q and k must be equally wide; got {q.shape} and {k.shape}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"attention: each key needs one value; got k {k.shape}, v {v.shape}")
