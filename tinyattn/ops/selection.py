"""Chapter 6: operations that select elements, such as where, maximum and clip.

The gradient goes to the selected element, and the others get 0. This 0 is selected too, because a
product 0·∞ would be NaN. If several elements tie in `maximum`, `minimum`, `max` or `min`, they get
equal parts of the gradient, so its sum is kept. `clip` and `relu` select between an element and a
limit, which gets no gradient. If the element equals the limit, `clip` passes the whole gradient on,
and `relu` passes none.
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import Mask, op


@op
def where(xp: Any, condition: Mask, a: Array, b: Array) -> Any:
    """a where the condition is True, b elsewhere.

    Forward:  y = a if condition else b
    Backward: da = g where the condition is True, else 0; db = g where it is False, else 0
    Shapes:   condition, a, b broadcast to y
    Raises:   TypeError if the condition is not boolean
    """
    return xp.where(condition, a, b), (None, lambda g: xp.where(condition, g, 0),
                                       lambda g: xp.where(condition, 0, g))  # fmt: skip


@op
def maximum(xp: Any, a: Array, b: Array) -> Any:
    """The larger of two elements.

    Forward:  y = max(a, b)
    Backward: da = g·[a > b] + g/2·[a = b], db = g·[b > a] + g/2·[a = b]
    Shapes:   a, b broadcast to y
    """
    return xp.maximum(a, b), (lambda g: _share(xp, g, a > b, a == b),
                              lambda g: _share(xp, g, b > a, a == b))  # fmt: skip


@op
def minimum(xp: Any, a: Array, b: Array) -> Any:
    """The smaller of two elements.

    Forward:  y = min(a, b)
    Backward: da = g·[a < b] + g/2·[a = b], db = g·[b < a] + g/2·[a = b]
    Shapes:   a, b broadcast to y
    """
    return xp.minimum(a, b), (lambda g: _share(xp, g, a < b, a == b),
                              lambda g: _share(xp, g, b < a, a == b))  # fmt: skip


def _share(xp: Any, g: Array, wins: Array, ties: Array) -> Array:
    """g where the element is selected, g/2 where two tie, 0 elsewhere."""
    return xp.where(wins, g, xp.where(ties, g / 2, 0))


@op
def clip(xp: Any, x: Array, *, low: float | None = None, high: float | None = None) -> Any:
    """x limited to the range from low to high.

    Forward:  y = min(max(x, low), high)
    Backward: dx = g where low ≤ x ≤ high, else 0
    Shapes:   y as x
    Raises:   ValueError if low > high; TypeError for limits that are not numbers (see `maximum`)
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
