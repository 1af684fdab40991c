"""Chapter 3: a transformer layer: attention, then a feed-forward network.

An attention block lets each position attend to others. The feed-forward network then works on each
position separately. Each has a residual connection: its output is added to its input. A model is a
stack of such layers. Next: a GPT, which predicts the next token (models/gpt.py).
"""

from __future__ import annotations

import numpy as np

from tinyattn.attention.block import AttentionBlock
from tinyattn.attention.cache import KeyValueCache
from tinyattn.backend import Array
from tinyattn.nn import NO_HOOKS, FeedForward, Hooks, LayerNorm, Module
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor


class Layer(Module):
    """A pre-norm transformer layer: attention and feed-forward, each with a residual connection.

    Forward: x ← x + attention(norm_1 x); x ← x + feedforward(norm_2 x)
    Shapes:  x (B, T, C) -> (B, T, C)
    Source:  Radford and others 2019, section 2.3 (pre-norm: a norm before each part, not after)
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
        dropout_rng: DropoutRNG | None = None,
        cache: KeyValueCache | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> Tensor:
        """Apply the layer; the options are those of `AttentionBlock.__call__`."""
        y = self.attention(
            self.norm_1(x), allowed=allowed, causal=causal, dropout_rng=dropout_rng, cache=cache,
            hooks=hooks.inside("attention"),
        )  # fmt: skip
        return self.add_feedforward(x + hooks("attention", y), dropout_rng, hooks)

    def add_feedforward(
        self, x: Tensor, dropout_rng: DropoutRNG | None, hooks: Hooks = NO_HOOKS
    ) -> Tensor:
        """The second half of the layer: x + feedforward(norm_2 x)."""
        y = self.feedforward(self.norm_2(x), dropout_rng, hooks.inside("feedforward"))
        return x + hooks("feedforward", y)
