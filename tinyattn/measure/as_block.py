"""Engine room, measuring: every attention type as one attention block.

Most attention types are attention blocks. The Perceiver is a way to connect layers. To compare it
with the others, this file joins its two attention layers, between sequence and latents, in one
attention block.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tinyattn.attention import ATTENTION, ATTENTION_TYPES, AttentionBlock, Call, MultiHead
from tinyattn.attention.lookup import parse_attention
from tinyattn.attention.masks import causal
from tinyattn.models.perceiver import Perceiver
from tinyattn.tensor import Tensor


class DownAndUp(AttentionBlock):
    """A Perceiver's attention alone: down to the latents and up again.

    Forward: z = Z + attention_1(Z, context x); y = x + attention_2(x, context z)
    Shapes:  x (B, T, C), latents Z (L, C) -> y (B, T, C)
    Raises:  ValueError unless it is called with causal=True, or if H does not divide C
    Source:  as `Perceiver`, without the norms and the feed-forward networks

    Args:
        options: those of `Perceiver`.
    """

    cannot: ClassVar[dict[str, str]] = {
        **Perceiver.cannot,
        **dict.fromkeys(("context", "padding", "mask"), "its masks are causal by index"),
    }
    multiply_adds = Perceiver.multiply_adds
    kept_elements = Perceiver.kept_elements

    def build(self, rng: np.random.Generator, *, latents: int = 64) -> None:
        """Create the latents, and two blocks of multi-head attention."""
        self.perceiver = Perceiver(self.width, rng=rng, latents=latents)
        rotary = self.rotary
        common: Any = {
            "max_length": self.max_length, "rng": rng, "dropout": self.dropout.rate,
            "rotary": None if rotary is None else lambda width: rotary,
        }  # fmt: skip
        self.down, self.up = (MultiHead(self.width, self.heads, **common) for _ in range(2))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """Down and up; the output of each is added to its input."""
        (B, T, C), L = x.shape, len(self.perceiver.latents)
        z = self.perceiver.latents.broadcast_to((B, L, C))
        past, known = (causal(*s, align="start", xp=x.xp) for s in ((L, T), (T, L)))
        z = z + self.down(z, context=x, allowed=past, dropout_rng=call.dropout_rng)
        return x + self.up(x, context=z, allowed=known, dropout_rng=call.dropout_rng)

    def sizes(self) -> dict[str, int]:
        """C, H and L."""
        return super().sizes() | {"L": len(self.perceiver.latents)}


def new_block(attention: str, width: int, heads: int, max_length: int) -> AttentionBlock:
    """A new block of an attention type, whose name may have options: "bigbird,block=16".

    Raises: ValueError for an unknown type, or options or sizes that it does not take.
    """
    name, options = parse_attention(attention, ATTENTION_TYPES)
    block_class: Any = {**ATTENTION, "perceiver": DownAndUp}[name]
    block: AttentionBlock = block_class(
        width, heads, max_length=max_length, rng=np.random.default_rng(0), **options
    )
    return block
