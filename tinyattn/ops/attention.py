"""Chapter 3, continued: scaled dot-product attention as one operation.

Built of matmul, softmax and matmul it needs two arrays of T × S numbers at once, and passes over
them again and again. Written as one operation it needs one, never divides it, works on it piece by
piece in the cache, and leaves out what lies in the future (derivations/05_attention.md). The
chapter on attention (`tinyattn/attention/`) builds on it. Next: checking all these gradients.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinyattn.backend import Array, tiles
from tinyattn.noise import Noise
from tinyattn.op import Mask, op
from tinyattn.ops.softmax import log_mask


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
    Raises:   ValueError if sizes do not fit, or dropout is not at least 0 and below 1; TypeError
              if allowed is not boolean
    Source:   Vaswani and others 2017, equation 1

    Args:
        scale: by default 1/√D.
        dropout: the share of the weights that is dropped; P·keep/(1 - dropout) replaces P.
        noise: where the bits `keep` come from; None means that nothing is dropped.
    """
    _check_shapes(q, k, v)
    if not 0 <= dropout < 1:
        raise ValueError(f"attention: dropout must be at least 0 and below 1; got {dropout}")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    T, S = q.shape[-2], k.shape[-2]
    if allowed is not None and np.broadcast_shapes(allowed.shape, (*lead, T, S)) != (*lead, T, S):
        raise ValueError(f"attention: allowed must fit {(*lead, T, S)}; got {allowed.shape}")
    keep = noise.keep(xp, (*lead, S, T), dropout) if noise is not None and dropout else None
    kept = 1 / (1 - dropout) if keep is not None else 1.0
    spans, biases = _spans_and_biases(xp, allowed, T, S, q.dtype)
    blocks = [
        _Block(keys, queries, xp.empty((*lead, keys.stop - keys.start, T - queries.start), q.dtype))
        for keys, queries in spans
    ]
    ones = xp.ones((1, S), dtype=q.dtype)
    total = xp.empty((*lead, 1, T), dtype=q.dtype)  # Σ_s e
    y = _empty_like(xp, q, (*lead, T, v.shape[-1]))
    # A few sequences at a time, so that their blocks stay in the cache.
    batched = q.ndim > 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    width = max((math.prod(block.e.shape[1:]) for block in blocks), default=0)
    parts = list(tiles(lead[0], width, xp)) if batched else [...]

    def thinned(block: _Block, rows: Any) -> Array:
        e = block.e[rows]
        return e if keep is None else e * keep[rows][..., block.keys, block.queries]

    def add_product(a: Array, b: Array, out: Array, block: _Block) -> None:
        if block is blocks[0]:  # it has all queries: nothing to add to yet
            xp.matmul(a, b, out=out)
        else:
            out += xp.matmul(a, b)

    for rows in parts:
        scaled = _turned(xp, q[rows], scale)
        largest = xp.full_like(total[rows], -math.inf)
        for block, bias in zip(blocks, biases, strict=True):
            e, m = block.e[rows], largest[..., block.queries]
            xp.matmul(k[rows][..., block.keys, :], scaled[..., block.queries], out=e)
            if bias is not None:
                e += _rows_of(bias, rows, e.ndim)
            xp.maximum(m, e.max(axis=-2, keepdims=True), out=m)
        largest[largest == -math.inf] = 0  # nothing allowed: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
        for block in blocks:
            keys, queries, e = block.keys, block.queries, block.e[rows]
            e -= largest[..., queries]
            xp.exp(e, out=e)
            add_product(ones[:, keys], e, total[rows][..., queries], block)  # faster than sum
            used = thinned(block, rows)
            add_product(_turn(used), v[rows][..., keys, :], y[rows][..., queries, :], block)
        xp.maximum(total[rows], 1, out=total[rows])  # exp(m - m) is in it, or nothing at all
        out = y[rows]
        out *= kept / _turn(total[rows])

    def vjp(g: Array) -> tuple[Array, Array, Array, None]:
        dq, dk, dv = (_empty_like(xp, a, (*lead, *a.shape[-2:])) for a in (q, k, v))
        for rows in parts:
            h = xp.array(g[rows], order="C")
            h *= kept / _turn(total[rows])  # divides P here, where it is T × E, not S × T
            scaled = _turned(xp, h, scale)
            inner = xp.matmul(h * y[rows], xp.full(v.shape[-1], scale / kept, dtype=h.dtype))
            for block in blocks:
                keys, queries = block.keys, block.queries
                used = thinned(block, rows)
                xp.matmul(used, h[..., queries, :], out=dv[rows][..., keys, :])
                ds = xp.matmul(v[rows][..., keys, :], scaled[..., queries])
                ds *= used
                ds -= block.e[rows] * inner[..., None, queries]  # P·Σ_s P·dP
                add_product(_turn(ds), k[rows][..., keys, :], dq[rows][..., queries, :], block)
                xp.matmul(ds, q[rows][..., queries, :], out=dk[rows][..., keys, :])
        return dq, dk, dv, None

    return y, vjp


KEYS_OF_A_BLOCK = 64
"""Few, so that causal attention computes little in vain; not so few that products get slow."""


class _Block(NamedTuple):
    """Some keys, the queries from the first that may attend to one of them, and what they make."""

    keys: slice
    queries: slice
    e: Array  # exp(scores - largest), Pᵀ before the division: keys down, queries across


def _spans_and_biases(
    xp: Any, allowed: Array | None, T: int, S: int, dtype: Any
) -> tuple[list[tuple[slice, slice]], list[Array | None]]:
    """The keys and queries of each block, and its part of the mask: 0 where allowed, else -∞."""
    whole = [(slice(0, S), slice(0, T))]
    if allowed is None:
        return whole, [None]
    allowed = xp.broadcast_to(allowed, (*allowed.shape[:-2], T, S))
    bias = log_mask(xp, _turn(allowed), dtype)
    # A GPU would have to wait for the answer, and likes one large product better than many.
    spans = _spans(allowed.reshape(-1, T, S).any(axis=0)) if xp is np and S else whole
    return spans, [xp.ascontiguousarray(bias[..., keys, queries]) for keys, queries in spans]


def _spans(seen: np.ndarray) -> list[tuple[slice, slice]]:
    """Keys in blocks, each with the queries from the first that sees one of them, if any does.

    In causal attention nearly half of all pairs are left out so: they lie in the future. The first
    block has all queries.
    """
    T, S = seen.shape
    spans: list[tuple[slice, slice]] = []
    for start in range(0, S, KEYS_OF_A_BLOCK):
        keys = slice(start, min(start + KEYS_OF_A_BLOCK, S))
        first = int(np.append(seen[:, keys].any(axis=1), True).argmax()) if spans else 0
        if spans and spans[-1][1].start == first:  # nothing to gain from two
            keys = slice(spans.pop()[0].start, keys.stop)
        spans.append((keys, slice(first, T)))
    return spans


def _turn(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def _turned(xp: Any, a: Array, scale: float) -> Array:
    """Each matrix transposed and scaled, moved in memory too: small products like it so."""
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
