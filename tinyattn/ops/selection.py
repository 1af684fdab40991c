"""Chapter 6: operations that choose one number or another.

The gradient goes to whoever was chosen, and the others get 0, whatever the gradient is: it is
chosen too and not multiplied by 0, since 0·∞ is NaN. Where two candidates of `maximum`, `minimum`,
`max` or `min` tie, they share the gradient equally, so its total is kept. `clip` and `relu` choose
between a number and a limit, which gets no gradient: at the limit itself `clip` passes all of it
on, and `relu`, at 0, none.
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import Mask, op


@op
def where(xp: Any, condition: Mask, a: Array, b: Array) -> Any:
    """a where the condition holds, b elsewhere.

    Forward:  y = a if condition else b
    Backward: da = g where the condition holds, else 0; db the other way round
    Shapes:   condition, a, b broadcast to y
    Raises:   TypeError if the condition is not boolean
    """
    return xp.where(condition, a, b), (None, lambda g: xp.where(condition, g, 0),
                                       lambda g: xp.where(condition, 0, g))  # fmt: skip


@op
def maximum(xp: Any, a: Array, b: Array) -> Any:
    """The larger of two numbers.

    Forward:  y = max(a, b)
    Backward: da = g·[a > b] + g/2·[a = b], and the mirror image for b
    Shapes:   a, b broadcast to y
    """
    return xp.maximum(a, b), (lambda g: _share(xp, g, a > b, a == b),
                              lambda g: _share(xp, g, b > a, a == b))  # fmt: skip


@op
def minimum(xp: Any, a: Array, b: Array) -> Any:
    """The smaller of two numbers.

    Forward:  y = min(a, b)
    Backward: da = g·[a < b] + g/2·[a = b], and the mirror image for b
    Shapes:   a, b broadcast to y
    """
    return xp.minimum(a, b), (lambda g: _share(xp, g, a < b, a == b),
                              lambda g: _share(xp, g, b < a, a == b))  # fmt: skip


def _share(xp: Any, g: Array, wins: Array, ties: Array) -> Array:
    """g for the winner, g/2 for each of two that tie, 0 for the loser."""
    return xp.where(wins, g, xp.where(ties, g / 2, 0))


@op
def clip(xp: Any, x: Array, *, low: float | None = None, high: float | None = None) -> Any:
    """x, kept between two limits.

    Forward:  y = min(max(x, low), high)
    Backward: dx = g where low ≤ x ≤ high, else 0
    Shapes:   y as x
    Raises:   ValueError if low > high; TypeError for limits that are no numbers (see `maximum`)
    """
    for limit in (low, high):
        if not (limit is None or isinstance(limit, (int, float))):
            raise TypeError(
                f"clip: limits must be numbers; got {type(limit).__name__}; use maximum and minimum"
            )
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
    return y, (lambda g: xp.where(inside, g, 0),)
