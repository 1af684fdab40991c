"""The Perceiver, a way to put layers together: its formula is in tests/models/test_perceiver.py."""

from typing import Any

import numpy
from formulas import meeting

USES = [True]
OPTIONS = {"latents": 3}
OWN_MASK = True


def sees(block: Any, T: int, causal: bool) -> numpy.ndarray:
    """The latents have read the first L; the rest is a position's own x +."""
    L = len(block.perceiver.latents)
    return meeting(T, causal) & ((numpy.arange(T) < L) | numpy.eye(T, dtype=bool))


def parameters(block: Any) -> int:
    """Of the block that stands for it in comparisons, down and up."""
    C = block.width
    return 2 * 4 * (C * C + C) + len(block.perceiver.latents) * C
