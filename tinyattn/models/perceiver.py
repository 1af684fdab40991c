"""Chapter 6: the Perceiver, whose middle layers work on fewer vectors.

Attention costs most where sequences are long. In the first layer of a Perceiver L learned vectors,
the latents, attend to the sequence. The layers between work on these L vectors, and in the last
layer the sequence attends to them. This changes how layers are connected, so it is no attention
block but a way to use blocks (derivations/19_perceiver.md).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn.attention.masks import causal
from tinyattn.models.layer import Layer
from tinyattn.nn import NO_HOOKS, Hooks, Module, Parameter, Role, uniform
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor


class Perceiver(Module):
    """The latents of the Perceiver of A5 (see Source), and how the layers use them.

    Forward: down: z ← Z + attention(norm_1 Z, context x), z ← z + feedforward(norm_2 z);
             the layers between: z as x in `Layer`;
             up: x ← x + attention(x, context norm_1 z), x ← x + feedforward(norm_2 x)
             Every attention is causal by index: query i attends to keys 0..i
    Shapes:  x (B, T, C), latents Z (L, C) -> (B, T, C)
    Raises:  ValueError for fewer than two layers
    Source:  CS224N assignment 5 of 2023, after Hawthorne and others 2022

    So latent j depends on the inputs 0..j only. An input at a position from L on affects only the
    output at its own position, through the residual connection `x +` of the last layer. The model
    is causal, and of its past it uses only the first L tokens.

    Args:
        latents: L, number of learned vectors.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "its masks are causal by index",
        "cache": "its last layer attends to the latents, not to the sequence",
        "focus": "in most of its layers the queries are latents",
        "near": "its latents have no position in the sequence",
    }
    multiply_adds = "4·T·C² + 4·L·C² + 4·T·L·C"
    kept_elements = "4·T·C + 4·L·C"

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
        dropout_rng: DropoutRNG | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> Tensor:
        """x through the first layer as down-projection, the last as up-projection, others between.

        Args: hooks: functions that see or change activations.
        """
        if len(layers) < 2:
            raise ValueError(f"Perceiver: needs at least 2 layers, down and up; got {len(layers)}")
        first, *between, last = layers
        z = hooks("layers.0", self.down(x, first, dropout_rng, hooks.inside("layers.0")))
        for i, layer in enumerate(between, 1):
            z = layer(z, causal=True, dropout_rng=dropout_rng, hooks=hooks.inside(f"layers.{i}"))
            z = hooks(f"layers.{i}", z)
        name = f"layers.{len(layers) - 1}"
        return hooks(name, self.up(x, z, last, dropout_rng, hooks.inside(name)))

    @staticmethod
    def check_layers(layers: int) -> None:
        """Raises: ValueError if a model with it cannot have so few layers."""
        if layers < 2:
            raise ValueError(f"'perceiver' needs at least 2 layers, down and up; got {layers}")

    def down(self, x: Tensor, layer: Layer, dropout_rng: DropoutRNG | None, hooks: Hooks) -> Tensor:
        """The latents after they attended to the sequence: x (B, T, C) -> (B, L, C)."""
        L, C = self.latents.shape
        z = self.latents.broadcast_to((x.shape[0], L, C))
        normed, allowed = layer.norm_1(z), causal(L, x.shape[1], align="start", xp=x.xp)
        y = layer.attention(normed, context=x, allowed=allowed, dropout_rng=dropout_rng,
                            hooks=hooks.inside("attention"))  # fmt: skip
        return layer.add_feedforward(z + hooks("attention", y), dropout_rng, hooks)

    def up(
        self, x: Tensor, z: Tensor, layer: Layer, dropout_rng: DropoutRNG | None, hooks: Hooks
    ) -> Tensor:
        """The sequence after it attended to the latents: x (B, T, C), z (B, L, C) -> (B, T, C)."""
        normed, allowed = layer.norm_1(z), causal(x.shape[1], z.shape[1], align="start", xp=x.xp)
        y = layer.attention(x, context=normed, allowed=allowed, dropout_rng=dropout_rng,
                            hooks=hooks.inside("attention"))  # fmt: skip
        return layer.add_feedforward(x + hooks("attention", y), dropout_rng, hooks)
