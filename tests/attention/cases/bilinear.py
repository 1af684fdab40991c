"""Bilinear attention: one matrix per head for queries and keys."""

import math
from typing import Any

import numpy
from cases import attention
from formulas import Parameters, linear, masked, meeting, merged, rotated, split

USES = [True, False]


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    T = x.shape[1]
    q = rotated(np, block, split(np, linear(np, p, "query", x), block.heads), range(T))
    k = rotated(np, block, x[:, None], range(T))
    v = split(np, linear(np, p, "value", x), block.heads)
    allowed = masked(attends(block, T, causal), padded)
    return merged(np, p, attention(np, q, k, v, allowed, scale=1 / math.sqrt(x.shape[-1])))


def parameters(block: Any) -> int:
    C, H = block.width, block.heads
    return H * (C * C + C) + 2 * (C * C + C)
