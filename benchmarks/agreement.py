"""Do two contenders compute the same? Their first results, without dropout, must be equal.

Otherwise the comparison would compare different work.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from contender import Contender, Program

STEPS = 3
TOLERANCE = 1e-5
"""Rounding differs by at most 3e-6, because each library has its own orders of summation, exp and
erf. The other GELU (tanh instead of exact) makes a difference of 4e-5."""
LARGEST_BATCH = 32
"""Enough to see a mistake."""


def has_chance(options: Mapping[str, Any]) -> bool:
    """Whether dropout makes the results random."""
    return bool(options.get("dropout"))


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of losses, of generated ids, or of summaries (attention_inputs.py)."""
    return float(np.abs(np.subtract(ours, theirs)).max())


def without_dropout(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same workload without randomness, and with at most LARGEST_BATCH sequences."""
    return {**options, "dropout": 0, "batch": min(options["batch"], LARGEST_BATCH)}


def first_answers(program: Program, options: Mapping[str, Any]) -> list[Any]:
    """What a program computes in its first steps without dropout.

    Raises: ContenderError, Unavailable if it cannot run.
    """
    with Contender(program, without_dropout(options)) as contender:
        return [contender.step()["result"] for _ in range(STEPS)]
