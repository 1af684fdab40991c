"""Chapter 2: dropout.

In training, each number is set to 0 with a small probability, so that no unit can rely on one other
unit; what remains is scaled up, so that the expectation is unchanged. Which numbers, random bits
decide (noise.py). Next: scaled dot-product attention, in two equations (ops/attention.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyattn.backend import Array
from tinyattn.op import op

if TYPE_CHECKING:
    from tinyattn.noise import Noise

LARGEST_RATE = 255 / 256
"""Eight bits decide whether an element is dropped, and one of their values must keep it."""


def check_rate(rate: float, name: str) -> None:
    """Raises: ValueError unless `rate`, which the caller calls `name`, is a rate of dropout."""
    if not 0 <= rate <= LARGEST_RATE:
        raise ValueError(f"{name} must be at least 0 and at most 255/256; got {rate}")


def _check(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> None:
    """Raises: ValueError unless `rate` is a rate of dropout."""
    check_rate(rate, "dropout: rate")


@op(check=_check)
def dropout(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> Any:
    """x with a share `rate` of its elements set to 0 and the others scaled by 1/(1 - rate).

    Forward:  y = x·k/(1 - rate), k = 0 with probability `rate`, else 1; y = x if noise is None
    Backward: dx = g·k/(1 - rate)
    Shapes:   y as x
    Raises:   ValueError unless 0 ≤ rate ≤ 255/256
    Source:   Srivastava and others 2014, section 10 ("inverted" dropout)
    """
    if noise is None or rate == 0:
        return x[...], (lambda g: g,)
    keep = noise.site(rate).keep(xp, x.shape)

    def drop(a: Array) -> Array:
        return xp.where(keep, a, 0) * (1 / (1 - rate))

    return drop(x), (drop,)
