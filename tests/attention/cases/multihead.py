"""Multi-head attention: every query attends to every key."""

from typing import Any

import numpy
from formulas import Parameters, dense, masked, meeting

USES = [True, False]


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    return dense(np, p, block, x, masked(attends(block, x.shape[1], causal), padded))


def parameters(block: Any) -> int:
    C = block.width
    return 4 * (C * C + C)
