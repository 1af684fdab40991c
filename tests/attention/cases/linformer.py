"""Linformer: keys and values are mixtures of all positions."""

from typing import Any

import numpy
from cases import attention
from formulas import Parameters, linear, meeting, merged, queries_keys_values, split

USES = [False]
OPTIONS = {"rows": 3}
ALWAYS_THERE = True


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    there = 1.0 if padded is None else numpy.swapaxes(padded, -1, -2)  # (B, 1, T, 1)
    T = x.shape[1]
    k = np.matmul(p["mix_keys"][:, :T], k * there)
    v = np.matmul(p["mix_values"][:, :T], v * there)
    return merged(np, p, attention(np, q, k, v))


def values(p: Parameters, block: Any, x: Any, padded: Any) -> Any:
    v = split(numpy, linear(numpy, p, "value", x), block.heads)
    there = 1.0 if padded is None else numpy.swapaxes(padded, -1, -2)
    return p["mix_values"][:, : x.shape[1]] @ (v * there)


def parameters(block: Any) -> int:
    C = block.width
    return 4 * (C * C + C) + 2 * block.rows * block.max_length
