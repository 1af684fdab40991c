"""Chapter 3, continued: scaled dot-product attention as one operation.

Built of matmul, softmax and matmul it needs two arrays of T × S numbers at once, and passes over
them again and again; written as one operation it needs one, works on it sequence by sequence in
the cache, and never divides it (derivations/05_attention.md). The chapter on attention
(`tinyattn/attention/`) builds on it. Next: checking all these gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, tiles
from tinyattn.noise import Noise
from tinyattn.op import Mask, op
from tinyattn.ops.softmax import exp_in_place, log_mask


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
    bias = None
    if allowed is not None:
        mask = log_mask(xp, allowed, q.dtype)
        bias = xp.ascontiguousarray(_turn(mask if mask.ndim > 1 else mask[None, :]))
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    T, S = q.shape[-2], k.shape[-2]
    if allowed is not None and np.broadcast_shapes(allowed.shape, (*lead, T, S)) != (*lead, T, S):
        raise ValueError(f"attention: allowed must fit {(*lead, T, S)}; got {allowed.shape}")
    # Scores stand keys down, queries across, (S, T): the sums and maxima over keys then run down
    # columns, which is several times faster than along rows.
    keep = noise.keep(xp, (*lead, S, T), dropout) if noise is not None and dropout else None
    kept = 1 / (1 - dropout) if keep is not None else 1.0
    e = xp.empty((*lead, S, T), dtype=q.dtype)  # exp(scores - largest), Pᵀ before the division
    total = xp.empty((*lead, 1, T), dtype=q.dtype)  # by this
    y = _empty_like(xp, q, (*lead, T, v.shape[-1]))
    # One sequence after the other, so that its S × T arrays stay in the cache.
    batched = q.ndim > 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    parts = list(tiles(lead[0], math.prod(e.shape[1:]), xp)) if batched else [...]

    for rows in parts:
        xp.matmul(k[rows], _turn(q[rows] * scale), out=e[rows])
        total[rows] = exp_in_place(xp, e[rows], _rows_of(bias, rows, e.ndim), axis=-2)
        used = e[rows] if keep is None else e[rows] * keep[rows]
        out = xp.matmul(_turn(used), v[rows], out=y[rows])
        out *= kept / _turn(total[rows])

    def vjp(g: Array) -> tuple[Array, Array, Array, None]:
        dq, dk, dv = (_empty_like(xp, a, (*lead, *a.shape[-2:])) for a in (q, k, v))
        for rows in parts:
            h = g[rows] / _turn(total[rows])  # divides P here, where it is T × D, not S × T
            inner = (h * y[rows]).sum(axis=-1)[..., None, :]  # Σ_s P·dP
            h *= kept
            ds = xp.matmul(v[rows], _turn(h))
            used = e[rows]
            if keep is not None:
                ds *= keep[rows]
                used = used * keep[rows]
            xp.matmul(used, h, out=dv[rows])
            ds -= inner
            ds *= e[rows]
            xp.matmul(_turn(ds), k[rows] * scale, out=dq[rows])
            xp.matmul(ds, q[rows] * scale, out=dk[rows])
        return dq, dk, dv, None

    return y, vjp


def _turn(a: Array) -> Array:
    """Each matrix transposed, as a view."""
    return a.swapaxes(-1, -2)


def _rows_of(bias: Array | None, rows: Any, ndim: int) -> Array | None:
    """The part of a mask that belongs to some rows, if it has rows of its own."""
    return bias[rows] if bias is not None and bias.ndim == ndim and len(bias) > 1 else bias


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
