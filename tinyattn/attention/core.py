"""Chapter 6: attention in two equations.

    α = softmax(K q)        how much the query q matches each key k_i
    c = Σ_i α_i v_i         the mean of the values v_i with these weights

These two lines are all of attention. The scale of the scores is 1 here and 1/√D in ops.attention.
Multi-head attention computes the two lines for many queries at a time, in several heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor


def attend(query: Any, keys: Any, values: Any, *, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The output c and the attention weights α, of one query or of many.

    Both come from `ops.attention`, the operation that models use. It does not return the weights.
    But if the values are the rows of the identity matrix, its output is the weights.

    Forward: α = softmax(scale·K q), c = Σ_i α_i v_i
    Shapes:  query (D,), keys (.., S, D), values (.., S, E) -> c (.., E), α (.., S);
             queries (.., T, D) -> c (.., T, E), α (.., T, S)
    Args:    scale: factor of the scores; default 1, whereas `ops.attention` and models use 1/√D
    Raises:  as `ops.attention`
    Source:  A5 (assignment 5 of Stanford CS224N), question 1, whose equations have no scale
    """
    single = np.ndim(query) == 1
    if single:
        query = query[None] if hasattr(query, "ndim") else [query]
    output = ops.attention(query, keys, values, scale=scale)
    identity = output.xp.eye(np.shape(keys)[-2], dtype=output.dtype)
    weights = ops.attention(query, keys, identity, scale=scale)
    return (output[..., 0, :], weights[..., 0, :]) if single else (output, weights)
