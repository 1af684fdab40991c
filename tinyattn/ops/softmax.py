"""Chapter 2: scores into weights.

The softmax turns any scores into positive numbers that sum to 1, and is where attention gets its
name from. Only differences between scores matter, so the largest can be subtracted first, and
nothing overflows (derivations/03_softmax.md). Next: dropout (ops/dropout.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Mask, op, sum_over


def _check(xp: Any, x: Array, allowed: Mask = None, *, axis: int = -1) -> None:
    """Raises: ValueError if allowed does not fit x."""
    if allowed is not None and np.broadcast_shapes(allowed.shape, x.shape) != x.shape:
        raise ValueError(f"softmax: allowed must fit x {x.shape}; got {allowed.shape}")


@op(check=_check)
def softmax(xp: Any, x: Array, allowed: Mask = None, *, axis: int = -1) -> Any:
    """Positive weights that sum to 1 along an axis.

    Forward:  y_i = exp(x_i - m)/Σ_j exp(x_j - m), m = max x, over the places that are allowed;
              0 elsewhere, and everywhere along an axis where nothing is allowed
    Backward: dx = y·(g - Σ_j g_j y_j)
    Shapes:   y as x; allowed broadcasts to x, True = takes part
    Units:    x nats (log-odds) -> y probability
    Raises:   ValueError along an axis of size 0, or if allowed does not fit; TypeError if it is
              not boolean
    Source:   Bridle 1990

    What x has where it is not allowed does not matter, be it ∞ or NaN.
    """
    scores = xp.array(x, order="C") if allowed is None else xp.where(allowed, x, -math.inf)
    m = scores.max(axis=axis, keepdims=True)
    if allowed is not None:
        m = xp.where(m == -math.inf, 0, m)  # nothing allowed: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    e = xp.exp(scores - m)
    y = e / xp.maximum(sum_over(xp, e, axis, keepdims=True), 1)  # exp(0) is in it, or nothing

    def dx(g: Array) -> Array:
        g = g if allowed is None else xp.where(allowed, g, 0)
        return y * (g - sum_over(xp, g * y, axis, keepdims=True))

    return y, (dx, None)
