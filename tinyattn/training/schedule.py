"""Chapter 6: learning rate schedules.

A learning rate usually starts small (the warm-up, in which the optimizer state fills), and falls
towards the end, so that the parameters settle. A schedule computes the learning rate of a step from
its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


def constant(progress: float) -> float:
    """1 at every step."""
    return 1.0


def linear(progress: float) -> float:
    """From 1 down to 0 along a straight line."""
    return 1.0 - progress


def cosine(progress: float) -> float:
    """From 1 down to 0 along half a cosine: slow, fast, slow (Loshchilov and Hutter 2017)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


SHAPES: dict[str, Callable[[float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
}
"""The learning rate after the warm-up, without floor: progress in 0..1 -> fraction of the peak."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step.

    Args:
        name: "constant", "linear", "cosine" or "a5-cyclic".
        learning_rate: peak of the schedule, its largest learning rate.
        warmup: length of the warm-up, in which the learning rate rises to the peak.
        end: where the learning rate has fallen to floor times the peak.
        floor: smallest learning rate after the warm-up, as a fraction of the peak, in 0..1.
    Units: warmup and end in steps; for "a5-cyclic" in tokens, padding included.
    Raises: ValueError for an unknown name, for a value that is negative or not finite, and for a
        floor above 1.
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
            raise ValueError(f"floor must be at most 1, a fraction of the peak; got {self.floor}")

    def __call__(self, step: int, tokens: int = 0) -> float:
        """The learning rate of step `step` (from 0); earlier steps had `tokens` tokens in all."""
        if self.name == "a5-cyclic":
            # A5's trainer sets the learning rate *after* a step: the first step runs at the peak.
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
    """The rule of A5 (assignment 5 of Stanford CS224N): a cosine that continues after `end`.

    Forward: tokens/warmup while tokens < warmup; then max(floor, (1 + cos πp)/2) with
             p = (tokens - warmup)/(end - warmup)
    After `end` the cosine rises again. The published settings of 2021 to 2023 reach `end` after
    200 of 650 epochs, so the learning rate is back at its peak after 400.
    """
    if tokens < warmup:
        return tokens / max(1, warmup)
    return max(floor, 0.5 * (1 + math.cos(math.pi * (tokens - warmup) / max(1, end - warmup))))
