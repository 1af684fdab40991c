"""The Perceiver, an arrangement of layers: its formula is in tests/models/test_perceiver.py."""

from typing import Any

import numpy
from formulas import meeting

USES = [True]
OPTIONS = {"latents": 3}
OWN_MASK = True


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    """The latents attend to the first L; otherwise a position has only its residual connection."""
    L = len(block.perceiver.latents)
    return meeting(T, causal) & ((numpy.arange(T) < L) | numpy.eye(T, dtype=bool))


def parameters(block: Any) -> int:
    """Of the block that represents it in comparisons, down and up."""
    C = block.width
    return 2 * 4 * (C * C + C) + len(block.perceiver.latents) * C
