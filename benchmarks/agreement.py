"""Do two contenders compute the same? Their first answers, without dropout, must be equal.

Otherwise the comparison would be one of different work.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from contender import Contender, Program

STEPS = 3
TOLERANCE = 1e-5
"""Rounding differs, by 3e-6 at most: orders of summation, exp and erf are each library's own. The
other kind of GELU makes a difference of 4e-5."""
LARGEST_BATCH = 32
"""Enough to see a mistake."""


def has_chance(options: Mapping[str, Any]) -> bool:
    """Whether dropout makes the answers random."""
    return bool(options.get("dropout"))


def difference(ours: Any, theirs: Any) -> float:
    """The largest: of losses, of symbols written, of attention's products with the probe."""
    return float(np.abs(np.subtract(ours, theirs)).max())


def without_dropout(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same workload without chance."""
    return {**options, "dropout": 0, "batch": min(options["batch"], LARGEST_BATCH)}


def first_answers(program: Program, options: Mapping[str, Any]) -> list[Any]:
    """What a program computes in its first steps without dropout.

    Raises: ContenderError, Unavailable if it cannot run.
    """
    with Contender(program, without_dropout(options)) as contender:
        return [contender.step()["result"] for _ in range(STEPS)]
