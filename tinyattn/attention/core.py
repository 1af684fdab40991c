"""Chapter 5, continued: attention in two equations.

    α = softmax(K q)        how much the query q matches each key k_i
    c = Σ_i α_i v_i         the mean of the values v_i with these weights

A query is a question, keys are what can be asked for, values are what is answered. These two
lines are all of attention; multi-head attention runs them for many queries at a time, in several
subspaces at once. Next: the contract of a block.
"""

from __future__ import annotations

from typing import Any

from tinyattn import ops
from tinyattn.tensor import Tensor


def attend(query: Any, keys: Any, values: Any, *, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The answer c and the weights α of one query.

    Forward: α = softmax(scale·K q), c = Σ_i α_i v_i
    Shapes:  query (D,), keys (S, D), values (S, E) -> c (E,), α (S,)
    Source:  CS224N assignment 5, question 1; scale 1 as there
    """
    weights = ops.softmax(ops.matmul(keys, query) * scale)
    return ops.matmul(weights, values), weights


def split_heads(x_BTC: Tensor, heads: int) -> Tensor:
    """(B, T, C) -> (B, H, T, D), D = C/H: each head gets its own slice of every position."""
    B, T, C = x_BTC.shape
    return x_BTC.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)


def merge_heads(x_BHTD: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, C), C = H·D: the heads side by side again."""
    B, H, T, D = x_BHTD.shape
    return x_BHTD.transpose(0, 2, 1, 3).reshape(B, T, H * D)
