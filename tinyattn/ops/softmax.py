"""Chapter 3, continued: scores into weights.

The softmax turns any scores into positive numbers that sum to 1, and is where attention gets its
name from. Only differences between scores matter, so the largest can be subtracted first, and
nothing overflows (derivations/03_softmax.md). Next: normalisation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Mask, op
from tinyattn.ops.reduce import axes_of
from tinyattn.sums import sum_over


@op
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
    if allowed is not None and np.broadcast_shapes(allowed.shape, x.shape) != x.shape:
        raise ValueError(f"softmax: allowed must fit x {x.shape}; got {allowed.shape}")
    y = x.copy() if allowed is None else xp.where(allowed, x, -math.inf)
    m = y.max(axis=axis, keepdims=True)
    if allowed is not None:
        m = xp.where(m == -math.inf, 0, m)  # nothing allowed: exp(-∞ - 0) is 0, but -∞ - -∞ is NaN
    y -= m
    xp.exp(y, out=y)
    axes = axes_of("softmax", x.shape, axis)
    y /= xp.maximum(sum_over(y, axes, keepdims=True), 1)  # exp(m - m) is in it, or nothing at all

    def dx(g: Array) -> Array:
        g = g if allowed is None else xp.where(allowed, g, 0)
        return y * (g - sum_over(g * y, axes, keepdims=True))

    return y, (dx, None)


def log_mask(xp: Any, allowed: Array, dtype: Any) -> Array:
    """0 where allowed, -∞ elsewhere: added to scores, it leaves the others no weight."""
    return xp.where(allowed, dtype.type(0), dtype.type(-math.inf))


@op
def log_softmax(xp: Any, x: Array, *, axis: int = -1) -> Any:
    """The logarithm of the softmax, exact also where the softmax itself rounds to 0.

    Forward:  y_i = x_i - m - ln Σ_j exp(x_j - m), m = max x
    Backward: dx = g - exp(y)·Σ_j g_j
    Shapes:   y as x
    Units:    nats
    Raises:   ValueError along an axis of size 0
    """
    axes = axes_of("log_softmax", x.shape, axis)
    y = x - x.max(axis=axis, keepdims=True)
    y -= xp.log(sum_over(xp.exp(y), axes, keepdims=True))
    return y, (lambda g: g - xp.exp(y) * sum_over(g, axes, keepdims=True),)
