"""Ratios of measurements: each round gives one; the table shows their median and quartiles.

Other load on the machine makes both sides of a round slower, so it changes the ratio much less than
the seconds.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f} {self.high:.2f}]"


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles; of a single value all three are this value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """ours / theirs for each round; below 1 if ours is less."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]
