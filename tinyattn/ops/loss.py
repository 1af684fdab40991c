"""Chapter 4: the cross-entropy loss.

The loss of a language model is the mean of -ln p(next token), in nats
(derivations/05_cross_entropy.md). Next: batches and padding (data/batches.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Index, op, sum_over


def _check(
    xp: Any, logits: Array, targets: Array, *, ignore: int | None = None, **options: Any
) -> None:
    """Raises: ValueError unless there is a target for each row of logits, and V is at least 1;
    IndexError for a target out of range, but only on the CPU: on a GPU this check would make the
    program wait."""
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
        valid = targets if ignore is None else targets[targets != ignore]
        if valid.size and (valid.min() < 0 or valid.max() >= V):
            raise IndexError(f"cross_entropy: targets must lie in 0..{V - 1}; got "
                             f"{valid.min()}..{valid.max()}")  # fmt: skip


@op(check=_check)
def cross_entropy(
    xp: Any,
    logits: Array,
    targets: Index,
    *,
    ignore: int | None = None,
    divisor: float | None = None,
) -> Any:
    """The mean of -ln p(target) over the targets that are not ignored.

    Forward:  y = 1/n Σ_i (ln Σ_v exp(z_iv) - z_i,target_i) over the n targets that are not ignored
    Backward: dz_i = (softmax(z_i) - onehot(target_i))·g/n, and 0 where ignored
    Shapes:   logits z (..., V), targets (...) -> y ()
    Units:    nats per target
    Raises:   ValueError if shapes differ or V is 0; IndexError if a target is not in 0..V-1 (on a
              GPU the loss is NaN instead)
    Source:   derivations/05_cross_entropy.md

    Args:
        ignore: targets with this value are ignored (PyTorch: ignore_index). If all targets are
            ignored, y and its gradient are 0.
        divisor: divide by this instead of n: a part of a batch divides by the whole batch's n.
    """
    V = logits.shape[-1]
    picked = targets.reshape(-1)
    valid = xp.ones(picked.shape, dtype=bool) if ignore is None else picked != ignore
    picked = xp.where(valid, picked, 0)
    z = logits.reshape(len(picked), V)
    if ignore is not None:  # ignored rows may contain ∞ or NaN
        z = xp.where(valid[:, None], z, 0)
    shifted = z - z.max(axis=1, keepdims=True)
    e = xp.exp(shifted)
    total = e.sum(axis=1)
    losses = xp.log(total) - shifted[xp.arange(len(z)), picked]
    mask = valid.astype(z.dtype)
    weight = mask / (xp.maximum(mask.sum(), 1) if divisor is None else divisor)

    def dz(g: Array) -> Array:
        onehot = xp.where(xp.arange(V) == picked[:, None], weight[:, None], 0)
        return ((e * (weight / total)[:, None] - onehot) * g).reshape(logits.shape)

    return (losses * weight).sum(), (dz, None)


@op
def log_softmax(xp: Any, x: Array, *, axis: int = -1) -> Any:
    """The logarithm of the softmax, accurate even where the softmax itself rounds to 0.

    Forward:  y_i = x_i - m - ln Σ_j exp(x_j - m), m = max x
    Backward: dx = g - exp(y)·Σ_j g_j
    Shapes:   y as x
    Units:    nats
    Raises:   ValueError along an axis of size 0
    """
    shifted = x - x.max(axis=axis, keepdims=True)
    y = shifted - xp.log(sum_over(xp, xp.exp(shifted), axis, keepdims=True))
    return y, (lambda g: g - xp.exp(y) * sum_over(xp, g, axis, keepdims=True),)
