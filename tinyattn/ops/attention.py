"""Chapter 2: scaled dot-product attention, in two equations.

    P = softmax(scale·q kᵀ)     how much each query matches each key
    y = P v                     for each query the mean of the values, with these weights

A query is a question, keys are what can be asked for, values are what is answered. A mask says
which keys a query may attend to; softmax gives the others the weight 0. Dropout, in training, drops
some weights (derivations/06_attention.md). Next: linear maps (ops/linear.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Mask, op
from tinyattn.ops.dropout import check_rate

if TYPE_CHECKING:
    from tinyattn.noise import Noise


def _check(
    xp: Any, q: Array, k: Array, v: Array, allowed: Mask = None, *, dropout: float = 0.0,
    **options: Any,
) -> None:  # fmt: skip
    """Raises: ValueError if q, k, v and allowed do not fit each other, or dropout is no rate."""
    check_rate(dropout, "attention: dropout")
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
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(
            "attention: the axes before length and width must be equal in q, k and v, or 1; got "
            f"{q.shape}, {k.shape}, {v.shape}"
        ) from None
    pairs = *lead, q.shape[-2], k.shape[-2]
    if allowed is not None and np.broadcast_shapes(allowed.shape, pairs) != pairs:
        raise ValueError(f"attention: allowed must fit {pairs}; got {allowed.shape}")


@op(check=_check)
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
    Backward: dv = Uᵀ g; dS = U·(g vᵀ) - P·Σ_j U_j·(g vᵀ)_j; dq = scale·dS k; dk = scale·dSᵀ q
    Shapes:   q (..., T, D), k (..., S, D), v (..., S, E) -> y (..., T, E); allowed broadcasts to
              (..., T, S), True = may attend
    Units:    scale·q kᵀ nats
    Raises:   ValueError if sizes do not fit, or dropout is not a rate; TypeError if
              allowed is not boolean
    Source:   Vaswani and others 2017, equation 1

    Args:
        causal: whether later keys are hidden; the last query stands at the last key.
        scale: by default 1/√D.
        dropout: the share of the weights that is dropped.
        noise: where the bits `keep` come from; None means that nothing is dropped.

    What keys and values are where they are hidden does not matter, be it ∞ or NaN.
    """
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = 1 / math.sqrt(max(1, D)) if scale is None else scale
    sees = xp.ones((T, S), dtype=bool) if allowed is None else allowed
    if causal:
        sees = sees & (xp.arange(S) <= xp.arange(T)[:, None] + (S - T))
    with np.errstate(invalid="ignore", over="ignore"):  # of pairs that are hidden
        scores = xp.where(sees, scale * xp.matmul(q, k.swapaxes(-1, -2)), -math.inf)
        most = scores.max(axis=-1, keepdims=True) if S else xp.zeros((T, 1), dtype=q.dtype)
        e = xp.exp(scores - xp.where(most == -math.inf, 0, most))
    total = xp.maximum(e.sum(axis=-1, keepdims=True), 1)  # exp(0) is in it, or nothing at all
    u = p = xp.where(sees, e / total, 0)
    if noise is not None and dropout:
        keys_first = noise.site(dropout).keep(xp, (*p.shape[:-2], S, T))
        u = xp.where(keys_first.swapaxes(-1, -2), p / (1 - dropout), 0)

    def vjp(g: Array) -> tuple[Array, ...]:
        used = (g != 0).any(axis=-1, keepdims=True)  # a query whose gradient is 0 has no say
        u_g, p_g = xp.where(used, u, 0), xp.where(used, p, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            u_du = xp.where(u_g == 0, 0, u_g * xp.matmul(g, v.swapaxes(-1, -2)))
        inner = u_du.sum(axis=-1, keepdims=True)
        ds = scale * xp.where(p_g == 0, 0, u_du - p_g * inner)
        dv = _mix(xp, u_g.swapaxes(-1, -2), g)
        return _mix(xp, ds, k), _mix(xp, ds.swapaxes(-1, -2), q), dv, None

    return _mix(xp, u, v), vjp


def _mix(xp: Any, weights: Array, x: Array) -> Array:
    """weights·x, in which 0·∞ and 0·NaN are 0: what has no weight has no say.

    Shapes: weights (..., M, N), x (..., N, K) -> (..., M, K)
    """
    finite = xp.isfinite(x)
    y = xp.matmul(weights, xp.where(finite, x, 0))
    if finite.all():
        return y
    w, odd = weights[..., None], xp.where(finite, 0, x)[..., None, :, :]
    with np.errstate(invalid="ignore"):
        return y + xp.where((w == 0) | (odd == 0), 0, w * odd).sum(axis=-2)
