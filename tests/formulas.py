"""What every attention block should compute, in plain NumPy, one query or one mask at a time.

Nothing here is sparse, blocked or cached. A formula receives the array module first: with HIPS
autograd's NumPy, the same lines give gradients that owe nothing to this package.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy
from blocks import sees
from cases import attention, rotate, softmax

from tinyattn.attention import AttentionBlock

Parameters = dict[str, Any]


def mask_of(block: AttentionBlock, T: int, causal: bool, padded: Any = None) -> Any:
    """Which pairs meet: (T, T), or (B, 1, T, T) if some keys are hidden."""
    seen = sees(block, T, causal)
    return seen if padded is None else seen & padded


def linear(np: Any, p: Parameters, name: str, x: Any) -> Any:
    return np.matmul(x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def split(np: Any, x: Any, H: int) -> Any:
    """(B, T, H·D) -> (B, H, T, D)."""
    B, T, width = x.shape
    return np.transpose(np.reshape(x, (B, T, H, width // H)), (0, 2, 1, 3))


def merged(np: Any, p: Parameters, y: Any) -> Any:
    """(B, H, T, D) -> (B, T, C), through the last linear map."""
    B, H, T, D = y.shape
    return linear(np, p, "out", np.reshape(np.transpose(y, (0, 2, 1, 3)), (B, T, H * D)))


def turned(np: Any, block: AttentionBlock, x: Any, places: Any) -> Any:
    """Rotary positions, if the block has them (Su and others 2021, equation 34)."""
    if block.rotary is None:
        return x
    D = x.shape[-1]
    angles = numpy.array([[t * 10_000 ** (-2 * i / D) for i in range(D // 2)] for t in places])
    return rotate(np, x, numpy.cos(angles), numpy.sin(angles))


def queries_keys_values(np: Any, p: Parameters, block: AttentionBlock, x: Any) -> list[Any]:
    q, k, v = (split(np, linear(np, p, name, x), block.heads) for name in ("query", "key", "value"))
    places = range(x.shape[1])
    return [turned(np, block, q, places), turned(np, block, k, places), v]


def dense(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    """Multi-head attention; BigBird is the same with another mask."""
    q, k, v = queries_keys_values(np, p, block, x)
    return merged(np, p, attention(np, q, k, v, mask_of(block, x.shape[1], causal, padded)))


def bilinear(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    places = range(x.shape[1])
    q = turned(np, block, split(np, linear(np, p, "query", x), block.heads), places)
    k = turned(np, block, x[:, None], places)
    v = split(np, linear(np, p, "value", x), block.heads)
    allowed = mask_of(block, x.shape[1], causal, padded)
    return merged(np, p, attention(np, q, k, v, allowed, scale=1 / math.sqrt(x.shape[-1])))


def synthesizer(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    T = x.shape[1]
    hidden = split(np, linear(np, p, "hidden", x), block.heads)
    scores = linear(np, p, "scores", np.where(hidden > 0, hidden, 0.0))[..., :T]
    weights = softmax(np, scores, mask_of(block, T, causal, padded))
    return merged(np, p, np.matmul(weights, split(np, linear(np, p, "value", x), block.heads)))


def random_synthesizer(
    np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any
) -> Any:
    T = x.shape[1]
    scores = p["table"][:, :T, :T] + numpy.zeros((len(x), 1, 1, 1))
    weights = softmax(np, scores, mask_of(block, T, causal, padded))
    return merged(np, p, np.matmul(weights, split(np, linear(np, p, "value", x), block.heads)))


def linformer(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    there = 1.0 if padded is None else numpy.swapaxes(padded, -1, -2)  # (B, 1, T, 1)
    T = x.shape[1]
    k = np.matmul(p["mix_keys"][:, :T], k * there)
    v = np.matmul(p["mix_values"][:, :T], v * there)
    return merged(np, p, attention(np, q, k, v))


def by_segments(
    np: Any, q: Any, k: Any, v: Any, K: int, summaries: Callable[[int], tuple[Any, Any]]
) -> Any:
    """Query after query: the summaries of the segments before its own, then its own up to it."""
    answers = []
    for t in range(q.shape[2]):
        own = slice(t // K * K, t + 1)
        past = [summaries(j) for j in range(t // K)]
        keys = np.concatenate([*(s[0] for s in past), k[:, :, own]], axis=2)
        values = np.concatenate([*(s[1] for s in past), v[:, :, own]], axis=2)
        answers.append(attention(np, q[:, :, t : t + 1], keys, values))
    return np.concatenate(answers, axis=2)


def linformer_causal(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    K = block.segment

    def summary(j: int) -> tuple[Any, Any]:
        here = slice(j * K, (j + 1) * K)
        return (
            np.matmul(p["mix_keys"], k[:, :, here]),
            np.matmul(p["mix_values"], v[:, :, here]),
        )

    return merged(np, p, by_segments(np, q, k, v, K, summary))


def latent(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    (B, _, _), K, H = x.shape, block.segment, block.heads

    def summary(j: int) -> tuple[Any, Any]:
        end = (j + 1) * K - 1
        read = attention(np, q[:, :, end : end + 1], k[:, :, : end + 1], v[:, :, : end + 1])
        z = np.reshape(np.transpose(read, (0, 2, 1, 3)), (B, 1, block.width))
        key = split(np, linear(np, p, "latent_key", z), H)
        return turned(np, block, key, [end]), split(np, linear(np, p, "latent_value", z), H)

    return merged(np, p, by_segments(np, q, k, v, K, summary))


FORMULAS: dict[str, Callable[..., Any]] = {
    "multihead": dense,
    "bilinear": bilinear,
    "synthesizer": synthesizer,
    "random-synthesizer": random_synthesizer,
    "bigbird": dense,
    "linformer": linformer,
    "linformer-causal": linformer_causal,
    "latent": latent,
}
