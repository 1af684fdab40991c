"""Chapter 6: segments, which avoid T × T scores.

Dense attention compares every query with every key. The attention types in the next files compare
fewer pairs. Three of them cut the sequence into segments of K positions. All queries of a segment
attend to the same short list of keys, so that attention remains a few matrix products. If the
length is not a multiple of K, the sequence is padded with zeros, to which no query attends.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor


def in_segments(x_BHTD: Tensor, K: int) -> Tensor:
    """(B, H, T, D) -> (B, H, M, K, D): M = ⌈T/K⌉ segments, the last one padded with zeros."""
    B, H, T, D = x_BHTD.shape
    M = math.ceil(T / K)
    if T < M * K:
        x_BHTD = ops.pad(x_BHTD, ((0, 0), (0, 0), (0, M * K - T), (0, 0)))
    return x_BHTD.reshape(B, H, M, K, D)


def joined(x_BHMKD: Tensor, T: int) -> Tensor:
    """(B, H, M, K, D) -> (B, H, T, D): segments as one sequence again, without padding."""
    B, H, M, K, D = x_BHMKD.shape
    return x_BHMKD.reshape(B, H, M * K, D)[:, :, :T]


def segment_attention(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTE: Tensor,
    summary_k: Tensor,
    summary_v: Tensor,
    *,
    K: int,
    scale: float,
    dropout: float = 0.0,
    dropout_rng: DropoutRNG | None = None,
) -> Tensor:
    """Causal attention to the positions of the same segment, and to summaries of earlier segments.

    The summary of a complete segment is R rows. A query attends to the rows of the segments that
    end before its own begins, and in its own segment to all positions up to itself. So its output
    depends on no later position.

    Forward: y_t = Σ over these rows and positions of softmax(scale·q_t k)·v
    Shapes:  q, k (B, H, T, D), v (B, H, T, E); summary_k (B, H, N, D), summary_v (B, H, N, E),
             N = R·⌊T/K⌋, in the order of the segments -> (B, H, T, E)
    """
    (B, H, T, _), N = q_BHTD.shape, summary_k.shape[2]
    M, rows = math.ceil(T / K), N // max(1, T // K)
    segment = np.arange(M)[:, None, None]
    own = np.broadcast_to(np.tri(K, dtype=bool), (M, K, K))
    finished = np.broadcast_to(np.arange(N) // max(1, rows) < segment, (M, K, N))
    allowed = asarray(np.concatenate([own, finished], axis=-1), device=q_BHTD.device)

    def keys(summary: Tensor, own: Tensor) -> Tensor:
        """(B, H, M, K + N, D): for each segment its own positions, then all summaries.

        In this order the index of a weight, and so its dropout, does not depend on the length of
        the sequence.
        """
        every = summary.expand_dims(2).broadcast_to((B, H, M, N, summary.shape[-1]))
        return ops.concatenate([in_segments(own, K), every], axis=3)

    y_BHMKE = ops.attention(
        in_segments(q_BHTD, K), keys(summary_k, k_BHTD), keys(summary_v, v_BHTE), allowed,
        scale=scale, dropout=dropout, dropout_rng=dropout_rng,
    )  # fmt: skip
    return joined(y_BHMKE, T)


def segment_weights(
    q_BHTD: Tensor, k_BHTD: Tensor, summary_k: Tensor, *, K: int, scale: float
) -> Tensor:
    """The weights of `segment_attention`, (B, H, T, T + N): of T positions, then of N summaries.

    The output is linear in the values. If value i is row i of the identity matrix, the output of a
    query is the list of its weights.
    """
    T, N = q_BHTD.shape[2], summary_k.shape[2]
    identity = np.eye(T + N)
    as_values = [
        Tensor(part, dtype=q_BHTD.dtype, device=q_BHTD.device).broadcast_to(
            (*q_BHTD.shape[:2], *part.shape)
        )
        for part in (identity[:T], identity[T:])
    ]
    return segment_attention(
        q_BHTD, k_BHTD, as_values[0], summary_k, as_values[1], K=K, scale=scale
    )
