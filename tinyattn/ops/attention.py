"""Chapter 2: scaled dot-product attention, in two equations.

    P = softmax(scale·q kᵀ)     the attention weights: how much each query matches each key
    y = P v                     for each query the mean of the values, with these weights

A query says what a token looks for, a key what a token has, and a value what it passes on. All come
from one sequence in self-attention; in cross-attention, keys and values come from another sequence.
An attention mask says which keys a query may attend to; the weights of the others are 0. Dropout
drops some weights in training (derivations/06_attention.md). Next: linear maps (ops/linear.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Mask, op
from tinyattn.ops.dropout import check_rate

if TYPE_CHECKING:
    from tinyattn.rng import DropoutRNG


def _check(
    xp: Any, q: Array, k: Array, v: Array, allowed: Mask = None, *, dropout: float = 0.0,
    **options: Any,
) -> None:  # fmt: skip
    """Raises: ValueError if the shapes do not fit, or dropout is not a valid probability."""
    check_rate(dropout, "attention: dropout")
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(
            f"attention: q, k and v must be (..., length, width); got {q.shape}, {k.shape}, "
            f"{v.shape}"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention: q and k must have equal widths; got {q.shape} and {k.shape}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"attention: each key needs one value; got k {k.shape}, v {v.shape}")
    try:
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(
            "attention: the axes of q, k and v before length and width must broadcast; got "
            f"{q.shape}, {k.shape}, {v.shape}"
        ) from None
    pairs = *lead, q.shape[-2], k.shape[-2]
    mask = () if allowed is None else allowed.shape[::-1]
    if len(mask) > len(pairs) or any(n not in (1, m) for n, m in zip(mask, pairs[::-1])):  # noqa: B905
        raise ValueError(f"attention: allowed must broadcast to {pairs}; got {mask[::-1]}")


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
    dropout_rng: DropoutRNG | None = None,
) -> Any:
    """For each query, the mean of the values, weighted by how well their keys match the query.

    Forward:  s = scale·q kᵀ; P = softmax(s) over the keys that are allowed; U = P, or with
              dropout U = P·keep/(1 - dropout); y = U v, or 0 for a query without an allowed key
    Backward: dU = g vᵀ; ds = U·dU - P·Σ_j U_j·dU_j; dq = scale·ds k; dk = scale·dsᵀ q; dv = Uᵀ g
              (g = dL/dy; q kᵀ is a matrix product, U·dU one of the elements; j counts the keys)
    Shapes:   q (..., T, D), k (..., S, D), v (..., S, E), allowed (..., T, S) -> y (..., T, E)
    Units:    s in nats (logarithms to base e)
    Raises:   ValueError if shapes or dropout are invalid; TypeError if allowed is not boolean
    Source:   Vaswani and others 2017, equation 1

    Args:
        allowed: boolean attention mask (PyTorch: attn_mask), True = may attend; may broadcast.
            Masked keys and values are ignored, even ∞ and NaN.
        causal: adds the causal mask, aligned at the end: with 5 keys, 2 queries have the positions
            3 and 4. PyTorch's is_causal aligns at the start: positions 0 and 1.
        scale: factor of the scores; default 1/√D (default of `attend`, attention/core.py: 1).
        dropout: probability that a weight is dropped, 0 to 255/256 (a random number has 8 bits).
        dropout_rng: draws `keep`, True for weights that are not dropped; None: no dropout.
    """
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = 1 / math.sqrt(max(1, D)) if scale is None else scale
    mask = xp.ones((T, S), dtype=bool) if allowed is None else allowed
    if causal:
        mask = mask & (xp.arange(S) <= xp.arange(T)[:, None] + (S - T))
    with np.errstate(invalid="ignore", over="ignore"):  # masked pairs may be ∞ or NaN
        scores = xp.where(mask, scale * xp.matmul(q, k.swapaxes(-1, -2)), -math.inf)
        largest = scores.max(axis=-1, keepdims=True) if S else xp.zeros((T, 1), dtype=q.dtype)
        e = xp.exp(scores - xp.where(largest == -math.inf, 0, largest))
    total = xp.maximum(e.sum(axis=-1, keepdims=True), 1)  # 0 only if all are masked
    u = p = xp.where(mask, e / total, 0)  # U and P; equal without dropout
    if dropout_rng is not None and dropout:
        keep = dropout_rng.mask(dropout).keep(xp, (*p.shape[:-2], S, T)).swapaxes(-1, -2)
        u = xp.where(keep, p / (1 - dropout), 0)

    def vjp(g: Array) -> tuple[Array, ...]:
        used = (g != 0).any(axis=-1, keepdims=True)  # a query with g = 0 contributes nothing
        u_g, p_g = xp.where(used, u, 0), xp.where(used, p, 0)  # U and P, 0 if g = 0
        with np.errstate(invalid="ignore", over="ignore"):
            u_du = xp.where(u_g == 0, 0, u_g * xp.matmul(g, v.swapaxes(-1, -2)))  # U·dU
        row_sum = u_du.sum(axis=-1, keepdims=True)
        ds = scale * xp.where(p_g == 0, 0, u_du - p_g * row_sum)  # ds times the scale
        dv = _weighted_sum(xp, u_g.swapaxes(-1, -2), g)
        return _weighted_sum(xp, ds, k), _weighted_sum(xp, ds.swapaxes(-1, -2), q), dv, None

    return _weighted_sum(xp, u, v), vjp


def _weighted_sum(xp: Any, weights: Array, x: Array) -> Array:
    """weights·x with 0·∞ = 0·NaN = 0: a row of x with the weight 0 contributes nothing.

    Shapes: weights (..., M, N), x (..., N, K) -> (..., M, K)
    """
    finite = xp.isfinite(x)
    y = xp.matmul(weights, xp.where(finite, x, 0))
    if finite.all():
        return y
    w, nonfinite = weights[..., None], xp.where(finite, 0, x)[..., None, :, :]
    with np.errstate(invalid="ignore"):
        return y + xp.where((w == 0) | (nonfinite == 0), 0, w * nonfinite).sum(axis=-2)
