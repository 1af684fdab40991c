"""Chapter 3: a layer lets positions look around, and then each think for itself.

Attention blocks let positions look at one another. Models are stacks of layers, and a layer is such
a block and a small network for each position, each added to what was there before. Next: a GPT is a
stack of layers that predicts the next symbol (models/gpt.py).
"""

from __future__ import annotations

import numpy as np

from tinyattn.attention.block import AttentionBlock
from tinyattn.attention.cache import KeyValueCache
from tinyattn.backend import Array
from tinyattn.nn import FeedForward, LayerNorm, Module
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor


class Layer(Module):
    """One round: look around, then think, each added to what was there before.

    Forward: x ← x + attention(norm_1 x); x ← x + feedforward(norm_2 x)
    Shapes:  x (B, T, C) -> (B, T, C)
    Source:  Radford and others 2019, section 2.3 (the norm before each part, not after)
    """

    def __init__(
        self,
        attention: AttentionBlock,
        *,
        rng: np.random.Generator,
        exact_gelu: bool,
        dropout: float,
    ) -> None:
        C = attention.width
        self.norm_1 = LayerNorm(C)
        self.attention = attention
        self.norm_2 = LayerNorm(C)
        self.feedforward = FeedForward(C, 4 * C, rng=rng, exact_gelu=exact_gelu, dropout=dropout)

    def __call__(
        self,
        x: Tensor,
        *,
        allowed: Array | None = None,
        causal: bool = False,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
        watch: list[Tensor] | None = None,
    ) -> Tensor:
        """One round; `watch` gets the attention weights appended, the rest is the block's."""
        seen = self.norm_1(x)
        if watch is not None:
            watch.append(self.attention.weights(seen, allowed=allowed, causal=causal))
        x = x + self.attention(seen, allowed=allowed, causal=causal, noise=noise, cache=cache)
        return self.think(x, noise)

    def think(self, x: Tensor, noise: Noise | None) -> Tensor:
        """The second half of a round."""
        return x + self.feedforward(self.norm_2(x), noise)
