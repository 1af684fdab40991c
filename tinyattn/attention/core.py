"""Chapter 6: attention in two equations.

    α = softmax(K q)        how much the query q matches each key k_i
    c = Σ_i α_i v_i         the mean of the values v_i with these weights

These two lines are all of attention (ops/attention.py has them for many queries); multi-head
attention runs them for many queries at a time, in several subspaces at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor


def attend(query: Any, keys: Any, values: Any, *, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The answers c and the weights α, of one query or of many.

    Both come from the operation that models use (ops/attention.py). It keeps no weights, but a
    query reads the weight of key i where value i is 1 and all other values are 0. So the weights
    are what it reads from the identity.

    Forward: α = softmax(scale·K q), c = Σ_i α_i v_i
    Shapes:  query (D,), keys (.., S, D), values (.., S, E) -> c (.., E), α (.., S);
             queries (.., T, D) -> c (.., T, E), α (.., T, S)
    Raises:  as `ops.attention`
    Source:  CS224N assignment 5, question 1; scale 1 as there
    """
    one = np.ndim(query) == 1
    if one:
        query = query[None] if hasattr(query, "ndim") else [query]
    answers = ops.attention(query, keys, values, scale=scale)
    identity = answers.xp.eye(np.shape(keys)[-2], dtype=answers.dtype)
    weights = ops.attention(query, keys, identity, scale=scale)
    return (answers[..., 0, :], weights[..., 0, :]) if one else (answers, weights)
