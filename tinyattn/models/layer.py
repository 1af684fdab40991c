"""Chapter 6: a layer lets positions look around, and then each think for itself.

Chapter 5 gave us blocks that let positions look at one another. Models are stacks of layers, and a
layer is such a block and a small network for each position, each added to what was there before.
Next: layers that narrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.attention import ATTENTION, AttentionBlock, KeyValueCache
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


def new_layers(
    count: int,
    attention: str,
    options: dict[str, int],
    *,
    width: int,
    heads: int,
    longest: int,
    rng: np.random.Generator,
    dropout: float,
    rotary: bool,
    exact_gelu: bool,
) -> list[Layer]:
    """So many layers with the attention of that name in ATTENTION, made with its options."""
    kind: Any = ATTENTION[attention]
    common = {"longest": longest, "rng": rng, "dropout": dropout, "rotary": rotary}
    return [
        Layer(kind(width, heads, **common, **options), rng=rng, exact_gelu=exact_gelu,
              dropout=dropout)
        for _ in range(count)
    ]  # fmt: skip


def layers_numbers(count: int, width: int) -> int:
    """How many parameters the matrices of so many layers have: of the attention and of thinking."""
    return count * (4 + 2 * 4) * width**2


def narrow_block(attention: str, options: dict[str, int], longest: int) -> AttentionBlock:
    """Such a block, as narrow as can be: to see whether its options fit, and what it can do.

    Raises: ValueError if it cannot be made so.
    """
    kind: Any = ATTENTION[attention]
    block: AttentionBlock = kind(2, 1, longest=longest, rng=np.random.default_rng(0), **options)
    return block
