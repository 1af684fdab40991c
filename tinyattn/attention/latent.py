"""Chapter 6: latent attention, a few positions that summarize the past for all.

In a Perceiver a few latent vectors attend to the whole input, and the layers work on those. A
language model must be causal: here the last position of every segment is a latent. It attends to
everything up to itself. Later segments attend to the latents instead of the positions before them.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import Call
from tinyattn.attention.multihead import MultiHead, merge_heads, split_heads
from tinyattn.attention.segments import segment_attention, segment_weights
from tinyattn.backend import asarray
from tinyattn.nn import Linear
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor


class Latent(MultiHead):
    """Causal attention to the own segment, and to the latents of earlier segments.

    Forward: the latent of segment j, at its last position t = (j + 1)·K - 1, attends to the whole
             past: z_j = [.. softmax(x_t W_q (x_≤t W_k)ᵀ/√D) x_≤t W_v ..]; a query of segment i
             attends to the keys z_j W_k' with values z_j W_v' of all j < i, and in its own segment
             to every position up to itself
    Shapes:  x (B, T, C), W_q, W_k, W_v (C, D), W_k', W_v', W_o (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError for a call that is not causal, or if H does not divide C
    Source:  Hawthorne and others 2022 (Perceiver AR), section 3.1. Differs: there only the last
             positions are latents, and only they predict. With a latent in every segment, every
             position predicts, and its prediction does not depend on the length of the sequence

    Args:
        segment: K, positions per segment; 0 means √max_length, which needs about the least work.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "it is causal by construction",
        "context": "its segments are parts of its own sequence",
        "padding": "it is causal: padding is after the sequence, where no query attends to it",
        "mask": "all later queries attend to the same latents",
        "cache": "a segment has a latent only when it is complete",
        "near": "its weights are on latents, which summarize all positions before them",
    }
    multiply_adds = "4·T·C² + 2·T/K·C² + 2·T/K·T·C + 2·T·(K + T/K)·C"
    kept_elements = "6·T·C + 3·T/K·C + 2·T/K·T/K·C"

    def build(self, rng: np.random.Generator, *, segment: int = 0) -> None:
        """Make the parameters of multi-head attention, and W_k' and W_v'."""
        super().build(rng)
        if segment < 0:
            raise ValueError(
                f"Latent: segment must be at least 1, or 0 for √max_length; got {segment}"
            )
        self.segment = min(segment or round(math.sqrt(self.max_length)), self.max_length)
        self.latent_key, self.latent_value = (
            Linear(self.width, self.width, rng=rng) for _ in range(2)
        )

    def sizes(self) -> dict[str, int]:
        """C, H and K."""
        return super().sizes() | {"K": self.segment}

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """The output of each query: it attends to earlier latents and to its own segment."""
        z_BLC = self._latents(q_BHTD, k_BHSD, v_BHSE, call.dropout_rng)
        return segment_attention(
            q_BHTD, k_BHSD, v_BHSE, self._latent_keys(z_BLC),
            split_heads(self.latent_value(z_BLC), self.heads),
            K=self.segment, scale=self.scale,
            dropout=self.dropout.rate, dropout_rng=call.dropout_rng,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights on the T positions, then on the L latents: (B, H, T, T + L)."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        z_BLC = self._latents(q_BHTD, k_BHSD, split_heads(self.value(x), self.heads), None)
        return segment_weights(
            q_BHTD, k_BHSD, self._latent_keys(z_BLC), K=self.segment, scale=self.scale
        )

    def weighted_values(self, x: Tensor, call: Call) -> Tensor:
        """The values of the T positions, then of the L latents: (B, H, T + L, D)."""
        q_BHTD, k_BHTD = self.queries_and_keys(x, x)
        v_BHTD = split_heads(self.value(x), self.heads)
        z_BLC = self._latents(q_BHTD, k_BHTD, v_BHTD, None)
        latents = split_heads(self.latent_value(z_BLC), self.heads)
        return ops.concatenate([v_BHTD, latents], axis=2)

    def _latents(
        self, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, dropout_rng: DropoutRNG | None
    ) -> Tensor:
        """The latents, which have attended to the positions up to them: (B, L, C), L = ⌊T/K⌋."""
        K, T = self.segment, q_BHTD.shape[2]
        ends = np.arange(K - 1, T, K)
        past = asarray(np.arange(T) <= ends[:, None], device=q_BHTD.device)
        z_BHLD = ops.attention(
            q_BHTD[:, :, K - 1 :: K], k_BHTD, v_BHTD, past,
            scale=self.scale, dropout=self.dropout.rate, dropout_rng=dropout_rng,
        )  # fmt: skip
        return merge_heads(z_BHLD)

    def _latent_keys(self, z_BLC: Tensor) -> Tensor:
        """(B, H, L, D); with rotary positions a latent has the position of its segment's end."""
        k_BHLD = split_heads(self.latent_key(z_BLC), self.heads)
        if self.rotary is not None:
            k_BHLD = self.rotary(k_BHLD, self.segment - 1, step=self.segment)
        return k_BHLD
