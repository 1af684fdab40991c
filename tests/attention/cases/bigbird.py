"""BigBird: multi-head attention with another mask, position by position."""

from typing import Any

import numpy
from formulas import Parameters, dense, masked, meeting

USES = [True, False]
OPTIONS = {"block": 4, "window_blocks": 1, "random_blocks": 1}
COUNTED = {"block": 8, "global_blocks": 2, "random_blocks": 1}
ALONE = {"random_blocks": 0}  # with more blocks it draws other blocks


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    lists = block.pattern(-(-T // block.block), causal)
    seen = numpy.zeros((T, T), bool)
    for t in range(T):
        row = {int(i) for i in lists[t // block.block]}
        for s in range(T):
            is_first = not causal and t // block.block < block.global_blocks
            seen[t, s] = is_first or s // block.block in row
    return seen & meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    return dense(np, p, block, x, masked(attends(block, x.shape[1], causal), padded))


def parameters(block: Any) -> int:
    C = block.width
    return 4 * (C * C + C)
