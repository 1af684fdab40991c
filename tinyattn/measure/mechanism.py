"""The engine room, measuring: every mechanism as one block.

Most mechanisms are blocks of the book. The Perceiver is a way to put layers together; to set it
beside the others it needs their form, so here its two layers with attention between text and
latents become one block. Next: mechanisms side by side.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tinyattn.attention import ATTENTION, AttentionBlock, KeyValueCache, MultiHead, parse_attention
from tinyattn.attention import causal as in_the_past
from tinyattn.backend import Array
from tinyattn.models.gpt import MECHANISMS
from tinyattn.models.perceiver import Perceiver
from tinyattn.noise import Noise
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

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        longest: int,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: bool = False,
        **options: int,
    ) -> None:
        common: Any = {"longest": longest, "rng": rng, "dropout": dropout, "rotary": rotary}
        super().__init__(width, heads, **common)
        self.perceiver = Perceiver(width, rng=rng, **options)
        self.down, self.up = (MultiHead(width, heads, **common) for _ in range(2))

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        self.check(x, context, allowed, causal, cache)
        (B, T, C), L = x.shape, len(self.perceiver.latents)
        z = self.perceiver.latents.broadcast_to((B, L, C))
        past, known = (in_the_past(*s, align="start", xp=x.xp) for s in ((L, T), (T, L)))
        z = z + self.down(z, context=x, allowed=past, noise=noise)
        return x + self.up(x, context=z, allowed=known, noise=noise)

    def sizes(self) -> dict[str, int]:
        """C, H and L."""
        return super().sizes() | {"L": len(self.perceiver.latents)}


def new_block(mechanism: str, width: int, heads: int, longest: int) -> AttentionBlock:
    """A new block of a mechanism, which may be written with options: "bigbird,block=16".

    Raises: ValueError if there is no such mechanism, or it cannot be made so.
    """
    name, options = parse_attention(mechanism, MECHANISMS)
    kind: Any = ATTENTION.get(name, DownAndUp)
    block: AttentionBlock = kind(
        width, heads, longest=longest, rng=np.random.default_rng(0), **options
    )
    return block
