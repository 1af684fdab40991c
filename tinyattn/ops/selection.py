"""Chapter 3, continued: operations that choose one number or another.

The gradient goes to whoever was chosen. Where two candidates tie, every operation of this package
follows one rule: the tied ones share the gradient equally, so its total is kept. Next: operations
that make many numbers into one.
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import Mask, op


@op
def where(xp: Any, condition: Mask, a: Array, b: Array) -> Any:
    """a where the condition holds, b elsewhere.

    Forward:  y = a if condition else b
    Backward: da = g·condition, db = g·(not condition)
    Shapes:   condition, a, b broadcast to y
    Raises:   TypeError if the condition is not boolean
    """
    if condition.dtype != bool:
        raise TypeError(f"where: condition must be boolean; got {condition.dtype}")
    return xp.where(condition, a, b), (None, lambda g: g * condition, lambda g: g * ~condition)


@op
def maximum(xp: Any, a: Array, b: Array) -> Any:
    """The larger of two numbers.

    Forward:  y = max(a, b)
    Backward: da = g·[a > b] + g/2·[a = b], and the mirror image for b
    Shapes:   a, b broadcast to y
    """
    return xp.maximum(a, b), (lambda g: g * _share(a > b, a == b, g),
                              lambda g: g * _share(b > a, a == b, g))  # fmt: skip


@op
def minimum(xp: Any, a: Array, b: Array) -> Any:
    """The smaller of two numbers.

    Forward:  y = min(a, b)
    Backward: da = g·[a < b] + g/2·[a = b], and the mirror image for b
    Shapes:   a, b broadcast to y
    """
    return xp.minimum(a, b), (lambda g: g * _share(a < b, a == b, g),
                              lambda g: g * _share(b < a, a == b, g))  # fmt: skip


def _share(wins: Array, ties: Array, g: Array) -> Array:
    """1 for the winner, ½ for each of two that tie, in the precision of g."""
    return wins.astype(g.dtype) + ties.astype(g.dtype) * 0.5


@op
def clip(xp: Any, x: Array, *, low: float | None = None, high: float | None = None) -> Any:
    """x, kept between two limits.

    Forward:  y = min(max(x, low), high)
    Backward: dx = g where low ≤ x ≤ high, else 0
    Shapes:   y as x
    Raises:   ValueError if low > high
    """
    if low is not None and high is not None and low > high:
        raise ValueError(f"clip: low must not be above high; got low={low}, high={high}")
    inside = xp.ones(x.shape, dtype=bool)
    y = x
    if low is not None:
        inside &= x >= low
        y = xp.maximum(y, low)
    if high is not None:
        inside &= x <= high
        y = xp.minimum(y, high)
    return y, (lambda g: g * inside,)
