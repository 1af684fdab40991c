"""Chapter 2: softmax, from scores to weights.

The softmax turns any scores into positive weights that sum to 1. Only differences between scores
matter. So the formula first subtracts the largest score, and exp cannot overflow
(derivations/03_softmax.md). Next: dropout (ops/dropout.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Mask, op, sum_over


def _check(xp: Any, x: Array, allowed: Mask = None, *, axis: int = -1) -> None:
    """Raises: ValueError if allowed does not broadcast to x."""
    if allowed is not None and np.broadcast_shapes(allowed.shape, x.shape) != x.shape:
        raise ValueError(f"softmax: allowed must broadcast to x {x.shape}; got {allowed.shape}")


@op(check=_check)
def softmax(xp: Any, x: Array, allowed: Mask = None, *, axis: int = -1) -> Any:
    """Turn scores x into weights y that are positive and sum to 1 along an axis.

    Forward:  y_i = exp(x_i - m)/Σ_j exp(x_j - m), m = max x, over the elements that are allowed;
              y = 0 for all others, even ∞ and NaN, also if no element along the axis is allowed
    Backward: dx = y·(g - Σ_j g_j y_j)
    Shapes:   y as x; allowed, a boolean mask (True = allowed), broadcasts to x
    Units:    x in nats (logarithms to base e) -> y probability
    Raises:   ValueError for an axis of size 0, or if allowed does not broadcast to x; TypeError
              if allowed is not boolean
    Source:   Bridle 1990
    """
    # A copy in C order has contiguous rows: NumPy's sum over them has a smaller rounding error.
    scores = xp.array(x, order="C") if allowed is None else xp.where(allowed, x, -math.inf)
    m = scores.max(axis=axis, keepdims=True)
    if allowed is not None:
        m = xp.where(m == -math.inf, 0, m)  # nothing allowed: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    e = xp.exp(scores - m)
    # The sum is at least 1, since m adds exp(m - m) = 1. If all is masked it is 0, and 0/1 is 0.
    y = e / xp.maximum(sum_over(xp, e, axis, keepdims=True), 1)

    def dx(g: Array) -> Array:
        g = g if allowed is None else xp.where(allowed, g, 0)
        return y * (g - sum_over(xp, g * y, axis, keepdims=True))

    return y, (dx, None)  # None: the mask has no gradient
