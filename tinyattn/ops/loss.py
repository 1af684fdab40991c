"""Chapter 4: cross-entropy, the price of a prediction.

The loss of a language model is the number of nats by which each next symbol surprised it
(derivations/05_cross_entropy.md). Next: examples side by side (data/batches.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Index, op, sum_over


def _check(
    xp: Any, logits: Array, targets: Array, *, ignore: int | None = None, **options: Any
) -> None:
    """Raises: ValueError unless there is a target for each row of logits, which is not empty;
    IndexError for one out of range, on the CPU: a GPU is not to wait for the answer."""
    if logits.ndim < 1 or logits.shape[-1] == 0:
        raise ValueError(
            f"cross_entropy: logits must be (..., V) with V at least 1; got {logits.shape}"
        )
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy: targets must have shape {logits.shape[:-1]} for logits "
            f"{logits.shape}; got {targets.shape}"
        )
    V = logits.shape[-1]
    if xp is np and targets.size:
        counting = targets if ignore is None else targets[targets != ignore]
        if counting.size and (counting.min() < 0 or counting.max() >= V):
            raise IndexError(f"cross_entropy: targets must lie in 0..{V - 1}; got "
                             f"{counting.min()}..{counting.max()}")  # fmt: skip


@op(check=_check)
def cross_entropy(
    xp: Any,
    logits: Array,
    targets: Index,
    *,
    ignore: int | None = None,
    divisor: float | None = None,
) -> Any:
    """The mean of -ln p(target) over the targets that count.

    Forward:  y = 1/n Σ_i (ln Σ_v exp(z_iv) - z_i,target_i) over the n targets that are not ignored
    Backward: dz_i = (softmax(z_i) - onehot(target_i))·g/n, and 0 where ignored
    Shapes:   logits z (..., V), targets (...) -> y ()
    Units:    nats per target
    Raises:   ValueError if shapes differ or V is 0, IndexError if a target is not in 0..V-1;
              on a GPU, which is not to wait, NaN
    Source:   derivations/05_cross_entropy.md

    Args:
        ignore: targets with this value do not count. If none counts, y and its gradient are 0.
        divisor: divide by this instead of n: a part of a batch divides by the whole batch's n.
    """
    V = logits.shape[-1]
    picked = targets.reshape(-1)
    counts = xp.ones(picked.shape, dtype=bool) if ignore is None else picked != ignore
    picked = xp.where(counts, picked, 0)
    z = logits.reshape(len(picked), V)
    if ignore is not None:  # what a row that does not count has in it, ∞ or NaN, does not matter
        z = xp.where(counts[:, None], z, 0)
    below = z - z.max(axis=1, keepdims=True)
    e = xp.exp(below)
    total = e.sum(axis=1)
    surprise = xp.log(total) - below[xp.arange(len(z)), picked]
    counted = counts.astype(z.dtype)
    weight = counted / (xp.maximum(counted.sum(), 1) if divisor is None else divisor)

    def dz(g: Array) -> Array:
        onehot = xp.where(xp.arange(V) == picked[:, None], weight[:, None], 0)
        return ((e * (weight / total)[:, None] - onehot) * g).reshape(logits.shape)

    return (surprise * weight).sum(), (dz, None)


@op
def log_softmax(xp: Any, x: Array, *, axis: int = -1) -> Any:
    """The logarithm of the softmax, exact also where the softmax itself rounds to 0.

    Forward:  y_i = x_i - m - ln Σ_j exp(x_j - m), m = max x
    Backward: dx = g - exp(y)·Σ_j g_j
    Shapes:   y as x
    Units:    nats
    Raises:   ValueError along an axis of size 0
    """
    below = x - x.max(axis=axis, keepdims=True)
    y = below - xp.log(sum_over(xp, xp.exp(below), axis, keepdims=True))
    return y, (lambda g: g - xp.exp(y) * sum_over(xp, g, axis, keepdims=True),)
