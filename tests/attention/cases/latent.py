"""Latents: the last position of a segment attends to the past, later queries attend to it."""

from typing import Any

import numpy
from cases import attention
from formulas import (
    Parameters,
    by_segments,
    linear,
    meeting,
    merged,
    queries_keys_values,
    rotated,
    split,
)

USES = [True]
OPTIONS = {"segment": 4}
OWN_MASK = True


def attends(block: Any, T: int, causal: bool) -> numpy.ndarray:
    return meeting(T, causal)


def formula(np: Any, p: Parameters, block: Any, x: Any, causal: bool, padded: Any) -> Any:
    q, k, v = queries_keys_values(np, p, block, x)
    (B, _, _), K, H = x.shape, block.segment, block.heads

    def summary(j: int) -> tuple[Any, Any]:
        end = (j + 1) * K - 1
        read = attention(np, q[:, :, end : end + 1], k[:, :, : end + 1], v[:, :, : end + 1])
        z = np.reshape(np.transpose(read, (0, 2, 1, 3)), (B, 1, block.width))
        key = split(np, linear(np, p, "latent_key", z), H)
        return rotated(np, block, key, [end]), split(np, linear(np, p, "latent_value", z), H)

    return merged(np, p, by_segments(np, q, k, v, K, summary))


def values(p: Parameters, block: Any, x: Any, padded: Any) -> Any:
    q, k, v = queries_keys_values(numpy, p, block, x)
    (B, T, C), K = x.shape, block.segment
    read = attention(numpy, q, k, v, numpy.tri(T, dtype=bool))[:, :, K - 1 :: K]
    z = read.swapaxes(1, 2).reshape(B, T // K, C)
    latents = split(numpy, linear(numpy, p, "latent_value", z), block.heads)
    return numpy.concatenate([v, latents], axis=2)


def parameters(block: Any) -> int:
    C = block.width
    return 6 * (C * C + C)
