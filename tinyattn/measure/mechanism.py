"""Engine room, measuring: every mechanism as one block.

Most mechanisms are blocks of the book. The Perceiver is a way to put layers together; to set it
beside the others it needs their form, so here its two layers with attention between text and
latents become one block.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tinyattn.attention import ATTENTION, MECHANISMS, AttentionBlock, Call, MultiHead
from tinyattn.attention.masks import causal
from tinyattn.attention.table import parse_attention
from tinyattn.models.perceiver import Perceiver
from tinyattn.tensor import Tensor


class DownAndUp(AttentionBlock):
    """A Perceiver's attention alone: down to the latents and up again.

    Forward: z = Z + attention_1(Z, context x); y = x + attention_2(x, context z)
    Shapes:  x (B, T, C), latents Z (L, C) -> y (B, T, C)
    Raises:  ValueError if it is not asked to be causal, or if H does not divide C
    Source:  as `Perceiver`, without the norms and the feed-forward networks

    Args:
        options: those of `Perceiver`.
    """

    cannot: ClassVar[dict[str, str]] = {
        **Perceiver.cannot,
        **dict.fromkeys(("context", "padding", "mask"), "its masks go by index"),
    }
    multiply_adds = Perceiver.multiply_adds
    kept_numbers = Perceiver.kept_numbers

    def build(self, rng: np.random.Generator, *, latents: int = 64) -> None:
        """The latents, and two blocks of multi-head attention."""
        self.perceiver = Perceiver(self.width, rng=rng, latents=latents)
        turn = self.rotary
        common: Any = {
            "longest": self.longest, "rng": rng, "dropout": self.dropout.rate,
            "rotary": None if turn is None else lambda width: turn,
        }  # fmt: skip
        self.down, self.up = (MultiHead(self.width, self.heads, **common) for _ in range(2))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """Down and up, each added to what was there."""
        (B, T, C), L = x.shape, len(self.perceiver.latents)
        z = self.perceiver.latents.broadcast_to((B, L, C))
        past, known = (causal(*s, align="start", xp=x.xp) for s in ((L, T), (T, L)))
        z = z + self.down(z, context=x, allowed=past, noise=call.noise)
        return x + self.up(x, context=z, allowed=known, noise=call.noise)

    def sizes(self) -> dict[str, int]:
        """C, H and L."""
        return super().sizes() | {"L": len(self.perceiver.latents)}


def new_block(mechanism: str, width: int, heads: int, longest: int) -> AttentionBlock:
    """A new block of a mechanism, which may be written with options: "bigbird,block=16".

    Raises: ValueError if there is no such mechanism, or it cannot be made so.
    """
    name, options = parse_attention(mechanism, MECHANISMS)
    kind: Any = {**ATTENTION, "perceiver": DownAndUp}[name]
    block: AttentionBlock = kind(
        width, heads, longest=longest, rng=np.random.default_rng(0), **options
    )
    return block
