"""Chapter 2: dropout.

In training, dropout sets each element to 0 with a small probability, so that the next layers cannot
rely on a single element. It scales the others up, so that the expected value is unchanged. Random
bits decide which elements are dropped (rng.py). Next: attention (ops/attention.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyattn.backend import Array
from tinyattn.op import op

if TYPE_CHECKING:  # only for annotations: rng.py is in chapter 3
    from tinyattn.rng import DropoutRNG

LARGEST_RATE = 255 / 256
"""The largest dropout probability: 1 of the 256 values of a random byte must mean "keep"."""


def check_rate(rate: float, name: str) -> None:
    """Raises: ValueError unless `rate`, called `name` in the message, is from 0 to 255/256."""
    if not 0 <= rate <= LARGEST_RATE:
        raise ValueError(f"{name} must be at least 0 and at most 255/256; got {rate}")


def _check(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> None:
    """Raises: ValueError unless `rate` is a valid dropout probability."""
    check_rate(rate, "dropout: rate")


@op(check=_check)
def dropout(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> Any:
    """Set each element of x to 0 with probability `rate`; scale the others by 1/(1 - rate).

    Forward:  y = x·k/(1 - rate), k = 0 with probability `rate`, else 1; dropout_rng draws k.
              Without a dropout_rng (PyTorch: eval mode), y = x
    Backward: dx = g·k/(1 - rate)
    Shapes:   y as x
    Raises:   ValueError unless 0 ≤ rate ≤ 255/256
    Source:   Srivastava and others 2014, section 10 ("inverted" dropout)
    """
    if dropout_rng is None or rate == 0:
        return x[...], (lambda g: g,)  # a view: the result becomes read-only, x does not
    keep = dropout_rng.mask(rate).keep(xp, x.shape)  # the next mask, as booleans: True = keep

    def drop(a: Array) -> Array:
        return xp.where(keep, a, 0) * (1 / (1 - rate))

    return drop(x), (drop,)
