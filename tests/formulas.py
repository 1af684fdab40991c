"""Parts of the formulas of attention blocks, in plain NumPy, one query or one mask at a time.

The formulas themselves are in attention/cases/, one file for each attention type; see
attention_cases.py.

Nothing here is sparse, blocked or cached. A formula receives the array module first: with HIPS
autograd's NumPy, the same lines give gradients that are independent of this package.
"""

from collections.abc import Callable
from typing import Any

import numpy
from cases import attention, rotate

from tinyattn.attention import AttentionBlock

Parameters = dict[str, Any]


def meeting(T: int, causal: bool) -> Any:
    """True for every pair of query and key; if causal, False for later keys: (T, T)."""
    return numpy.tri(T, dtype=bool) if causal else numpy.ones((T, T), bool)


def masked(seen: Any, padded: Any) -> Any:
    """Which queries attend to which keys: (T, T), or (B, 1, T, T) if some keys are hidden."""
    return seen if padded is None else seen & padded


def linear(np: Any, p: Parameters, name: str, x: Any) -> Any:
    return np.matmul(x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def split(np: Any, x: Any, H: int) -> Any:
    """(B, T, H·D) -> (B, H, T, D)."""
    B, T, width = x.shape
    return np.transpose(np.reshape(x, (B, T, H, width // H)), (0, 2, 1, 3))


def merged(np: Any, p: Parameters, y: Any) -> Any:
    """(B, H, T, D) -> (B, T, C), through the output projection."""
    B, H, T, D = y.shape
    return linear(np, p, "out", np.reshape(np.transpose(y, (0, 2, 1, 3)), (B, T, H * D)))


def rotated(np: Any, block: AttentionBlock, x: Any, places: Any) -> Any:
    """Rotary positions, if the block has them (Su and others 2021, equation 34)."""
    if block.rotary is None:
        return x
    D = x.shape[-1]
    angles = numpy.array([[t * 10_000 ** (-2 * i / D) for i in range(D // 2)] for t in places])
    return rotate(np, x, numpy.cos(angles), numpy.sin(angles))


def queries_keys_values(np: Any, p: Parameters, block: AttentionBlock, x: Any) -> list[Any]:
    q, k, v = (split(np, linear(np, p, name, x), block.heads) for name in ("query", "key", "value"))
    places = range(x.shape[1])
    return [rotated(np, block, q, places), rotated(np, block, k, places), v]


def dense(np: Any, p: Parameters, block: Any, x: Any, allowed: Any) -> Any:
    """Multi-head attention with any mask."""
    q, k, v = queries_keys_values(np, p, block, x)
    return merged(np, p, attention(np, q, k, v, allowed))


def by_segments(
    np: Any, q: Any, k: Any, v: Any, K: int, summaries: Callable[[int], tuple[Any, Any]]
) -> Any:
    """Query by query: summaries of the segments before its own, then its own segment up to it."""
    answers = []
    for t in range(q.shape[2]):
        own = slice(t // K * K, t + 1)
        past = [summaries(j) for j in range(t // K)]
        keys = np.concatenate([*(s[0] for s in past), k[:, :, own]], axis=2)
        values = np.concatenate([*(s[1] for s in past), v[:, :, own]], axis=2)
        answers.append(attention(np, q[:, :, t : t + 1], keys, values))
    return np.concatenate(answers, axis=2)
