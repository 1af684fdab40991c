"""The dense synthesizer: the scores of a position are computed from its own input."""

from typing import Any

import numpy
from cases import softmax
from formulas import Parameters, linear, masked, meeting, merged, split

USES = [True, False]


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    T = x.shape[1]
    hidden = split(np, linear(np, p, "hidden", x), block.heads)
    scores = linear(np, p, "scores", np.where(hidden > 0, hidden, 0.0))[..., :T]
    weights = softmax(np, scores, masked(attends(block, T, causal), padded))
    return merged(np, p, np.matmul(weights, split(np, linear(np, p, "value", x), block.heads)))


def parameters(block: Any) -> int:
    C, D, N = block.width, block.width // block.heads, block.max_length
    return 3 * (C * C + C) + D * N + N
