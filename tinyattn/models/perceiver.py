"""Chapter 6: layers that narrow.

Attention costs most where sequences are long. A Perceiver's first layer lets m learned vectors, the
latents, read the text; the layers between work on these m, and the last lets the text read them.
This changes how layers are put together, so it is no attention block but a way to use one
(derivations/19_perceiver.md).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn.attention.masks import causal
from tinyattn.models.layer import Layer
from tinyattn.nn import Module, Parameter, Role, uniform
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor


class Perceiver(Module):
    """The latents of A5's Perceiver, and the way through the layers that uses them.

    Forward: down: z ← Z + attention(norm_1 Z, context x), z ← z + feedforward(norm_2 z);
             the layers between: z as x in `Layer`;
             up: x ← x + attention(x, context norm_1 z), x ← x + feedforward(norm_2 x)
             Every attention is causal by its indices alone: query i sees keys 0..i
    Shapes:  x (B, T, C), latents Z (L, C) -> (B, T, C)
    Raises:  ValueError for fewer than two layers
    Source:  CS224N assignment 5 of 2023, after Hawthorne and others 2022

    So latent j has read the inputs 0..j and no others, and inputs from L on reach nobody but
    themselves, through the `x +` of the last layer. The model is causal; what it can know of its
    past is the first L symbols.

    Args:
        latents: L, learned vectors.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "its masks go by index",
        "cache": "its last layer reads the latents, not the text",
        "focus": "in most of its layers the queries are latents",
        "near": "its latents stand nowhere in the text",
    }
    multiply_adds = "4·T·C² + 4·L·C² + 4·T·L·C"
    kept_numbers = "4·T·C + 4·L·C"

    def __init__(self, width: int, *, rng: np.random.Generator, latents: int = 64) -> None:
        if latents < 1:
            raise ValueError(f"Perceiver: latents must be at least 1; got {latents}")
        # Glorot and Bengio's bound as A5's framework computes it for a shape (1, L, C).
        bound = math.sqrt(6 / ((latents + 1) * width))
        self.latents = Parameter(uniform(bound)((latents, width), rng), role=Role.TABLE)

    def __call__(
        self,
        x: Tensor,
        layers: list[Layer],
        noise: Noise | None = None,
        watch: list[Tensor] | None = None,
    ) -> Tensor:
        """x through the first layer as down-projection, the last as up-projection, others between.

        Args: watch: gets the weights of every layer, on inputs or on latents, appended.
        """
        if len(layers) < 2:
            raise ValueError(f"Perceiver: needs a layer down and one up; got {len(layers)}")
        first, *between, last = layers
        z = self.down(x, first, noise, watch)
        for layer in between:
            z = layer(z, causal=True, noise=noise, watch=watch)
        return self.up(x, z, last, noise, watch)

    @staticmethod
    def check_layers(layers: int) -> None:
        """Raises: ValueError if a model with it cannot have so few layers."""
        if layers < 2:
            raise ValueError(f"'perceiver' needs at least 2 layers, down and up; got {layers}")

    def down(
        self, x: Tensor, layer: Layer, noise: Noise | None, watch: list[Tensor] | None
    ) -> Tensor:
        """What the latents read: (B, T, C) -> (B, L, C)."""
        L, C = self.latents.shape
        z = self.latents.broadcast_to((x.shape[0], L, C))
        seen, allowed = layer.norm_1(z), causal(L, x.shape[1], align="start", xp=x.xp)
        if watch is not None:
            watch.append(layer.attention.weights(seen, context=x, allowed=allowed))
        z = z + layer.attention(seen, context=x, allowed=allowed, noise=noise)
        return layer.think(z, noise)

    def up(
        self, x: Tensor, z: Tensor, layer: Layer, noise: Noise | None, watch: list[Tensor] | None
    ) -> Tensor:
        """What the text reads from the latents: x (B, T, C), z (B, L, C) -> (B, T, C)."""
        seen, allowed = layer.norm_1(z), causal(x.shape[1], z.shape[1], align="start", xp=x.xp)
        if watch is not None:
            watch.append(layer.attention.weights(x, context=seen, allowed=allowed))
        x = x + layer.attention(x, context=seen, allowed=allowed, noise=noise)
        return layer.think(x, noise)
