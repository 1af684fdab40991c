"""Chapter 6: a few positions that read for all.

A Perceiver lets a few latent vectors read the whole input, and works on those. A language model
has to keep the order of time: here the last position of every segment is a latent. It reads
everything up to itself, and whoever comes later reads the latents instead of the text.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import Call
from tinyattn.attention.multihead import MultiHead, merge_heads, split_heads
from tinyattn.attention.segments import look_back, look_back_weights
from tinyattn.backend import asarray
from tinyattn.nn import Linear
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor


class Latent(MultiHead):
    """Causal attention to one's own segment, and to what the past segments' latents have read.

    Forward: the latent of segment j, at its last position t = (j + 1)·K - 1, reads the whole past:
             z_j = [.. softmax(x_t Q_h (X_≤t K_h)ᵀ/√D) X_≤t V_h ..]; a query of segment i sees the
             keys z_j K' and values z_j V' of all j < i, and in its own segment every position up
             to itself
    Shapes:  x X (B, T, C), Q_h, K_h, V_h (C, D), K', V', W (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError if it is not asked to be causal, or if H does not divide C
    Source:  Hawthorne and others 2022 (Perceiver AR), section 3.1. Differs: they put latents at the
             last positions only, which alone predict; with one in every segment every position
             predicts, and what it predicts does not depend on how long the text will become

    Args:
        segment: K; 0 stands for √longest, which makes about the least work.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "it is made for the past",
        "context": "segments are cut from its own sequence",
        "padding": "it is causal: what fills a text up stands behind it and is not seen",
        "mask": "a latent reads for all queries that come later",
        "cache": "a segment has a latent only when it is finished",
        "near": "its weights are on latents, which have read everything before them",
    }
    multiply_adds = "4·T·C² + 2·T/K·C² + 2·T/K·T·C + 2·T·(K + T/K)·C"
    kept_numbers = "6·T·C + 3·T/K·C + 2·T/K·T/K·C"

    def build(self, rng: np.random.Generator, *, segment: int = 0) -> None:
        """Those of multi-head attention, and K' and V'."""
        super().build(rng)
        if segment < 0:
            raise ValueError(
                f"Latent: segment must be at least 1, or 0 for √longest; got {segment}"
            )
        self.segment = min(segment or round(math.sqrt(self.longest)), self.longest)
        self.latent_key, self.latent_value = (
            Linear(self.width, self.width, rng=rng) for _ in range(2)
        )

    def sizes(self) -> dict[str, int]:
        """C, H and K."""
        return super().sizes() | {"K": self.segment}

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """What each query reads from the latents and from its own segment."""
        z_BLC = self._read(q_BHTD, k_BHSD, v_BHSE, call.noise)
        return look_back(
            q_BHTD, k_BHSD, v_BHSE, self._latent_keys(z_BLC),
            split_heads(self.latent_value(z_BLC), self.heads),
            K=self.segment, scale=self.scale, dropout=self.dropout.rate, noise=call.noise,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights on the T positions, then on the L latents: (B, H, T, T + L)."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        z_BLC = self._read(q_BHTD, k_BHSD, split_heads(self.value(x), self.heads), None)
        return look_back_weights(
            q_BHTD, k_BHSD, self._latent_keys(z_BLC), K=self.segment, scale=self.scale
        )

    def _read(self, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, noise: Noise | None) -> Tensor:
        """What the latents have read of the text: (B, L, C), L = ⌊T/K⌋."""
        K, T = self.segment, q_BHTD.shape[2]
        ends = np.arange(K - 1, T, K)
        past = asarray(np.arange(T) <= ends[:, None], device=q_BHTD.device)
        z_BHLD = ops.attention(
            q_BHTD[:, :, K - 1 :: K], k_BHTD, v_BHTD, past,
            scale=self.scale, dropout=self.dropout.rate, noise=noise,
        )  # fmt: skip
        return merge_heads(z_BHLD)

    def _latent_keys(self, z_BLC: Tensor) -> Tensor:
        """(B, H, L, D); with rotary positions a latent stands at the end of its segment."""
        k_BHLD = split_heads(self.latent_key(z_BLC), self.heads)
        if self.rotary is not None:
            k_BHLD = self.rotary(k_BHLD, self.segment - 1, step=self.segment)
        return k_BHLD
