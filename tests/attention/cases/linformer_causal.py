"""Causal Linformer: mixtures of each finished segment, and a query's own segment."""

from typing import Any

import numpy
from formulas import Parameters, by_segments, linear, meeting, merged, queries_keys_values, split

USES = [True]
OPTIONS = {"segment": 4, "rows": 2}
OWN_MASK = True


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    K = block.segment

    def summary(j: int) -> tuple[Any, Any]:
        here = slice(j * K, (j + 1) * K)
        return (
            np.matmul(p["mix_keys"], k[:, :, here]),
            np.matmul(p["mix_values"], v[:, :, here]),
        )

    return merged(np, p, by_segments(np, q, k, v, K, summary))


def values(p: Parameters, block: Any, x: Any, padded: Any) -> Any:
    v, T, K = split(numpy, linear(numpy, p, "value", x), block.heads), x.shape[1], block.segment
    mixed = [p["mix_values"] @ v[:, :, j : j + K] for j in range(0, T - K + 1, K)]
    return numpy.concatenate([v, *mixed], axis=2)


def parameters(block: Any) -> int:
    C = block.width
    return 4 * (C * C + C) + 2 * block.rows * block.segment
