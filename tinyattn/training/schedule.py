"""Chapter 6: how large a step to take, and when.

A learning rate usually starts small (warm-up, while the optimiser gets to know the gradients),
and falls towards the end, so that the parameters settle. A schedule is a function of how far the
run has come.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


def constant(progress: float) -> float:
    """1 throughout."""
    return 1.0


def linear(progress: float) -> float:
    """From 1 straight down to 0."""
    return 1.0 - progress


def cosine(progress: float) -> float:
    """From 1 down to 0 along half a cosine: slow, fast, slow (Loshchilov and Hutter 2017)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


SHAPES: dict[str, Callable[[float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
}


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step.

    Args:
        name: "constant", "linear", "cosine" or "a5-cyclic".
        learning_rate: the largest, its peak.
        warmup: how long the learning rate climbs to the peak.
        end: when it has come down to floor times that.
        floor: the smallest after the warm-up, as a share of the peak.
    Units: warmup and end in steps; for "a5-cyclic" in tokens, PADs included.
    Raises: ValueError for a name that does not exist, or a number below 0 or without end;
        for a floor above 1.
    """

    name: str
    learning_rate: float
    warmup: int = 0
    end: int = 0
    floor: float = 0.1

    def __post_init__(self) -> None:
        if self.name not in [*SHAPES, "a5-cyclic"]:
            raise ValueError(f"schedule must be one of {[*SHAPES, 'a5-cyclic']}; got {self.name!r}")
        for field in ("learning_rate", "warmup", "end", "floor"):
            if not 0 <= getattr(self, field) < math.inf:
                raise ValueError(
                    f"{field} must be at least 0 and finite; got {getattr(self, field)}"
                )
        if self.floor > 1:
            raise ValueError(f"floor must be at most 1, a share of the peak; got {self.floor}")

    def __call__(self, step: int, tokens: int = 0) -> float:
        """The learning rate of step number `step` (from 0), `tokens` having been read before it."""
        if self.name == "a5-cyclic":
            # A5's trainer sets the learning rate *after* each step: the first one runs at the peak.
            return self.learning_rate * (
                a5_cyclic(tokens, self.warmup, self.end, self.floor) if step else 1
            )
        if step < self.warmup:
            return self.learning_rate * (step + 1) / (self.warmup + 1)
        if step == self.warmup:
            return self.learning_rate
        if step >= self.end:
            return self.learning_rate * (1.0 if self.name == "constant" else self.floor)
        shape = SHAPES[self.name]((step - self.warmup) / (self.end - self.warmup))
        return self.learning_rate * (self.floor + (1 - self.floor) * shape)


def a5_cyclic(tokens: int, warmup: int, end: int, floor: float = 0.1) -> float:
    """The rule of CS224N assignment 5: a cosine that nobody stops.

    Forward: tokens/warmup while tokens < warmup; then max(floor, (1 + cos πp)/2) with
             p = (tokens - warmup)/(end - warmup)
    Beyond `end` the cosine climbs again. The published settings of 2021 to 2023 pass `end` after
    200 of 650 epochs, and so come back to the full learning rate after 400.
    """
    if tokens < warmup:
        return tokens / max(1, warmup)
    return max(floor, 0.5 * (1 + math.cos(math.pi * (tokens - warmup) / max(1, end - warmup))))
