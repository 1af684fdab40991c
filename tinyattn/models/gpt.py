"""Chapter 3: a GPT, a stack of transformer layers that predicts the next token.

It turns each token into a vector and applies its layers, in which a position attends only to itself
and to earlier positions. From the output of the last layer it computes the logits of the next
token. A token is one character in chapter 5. Next: the cross-entropy loss (ops/loss.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinyattn.attention.cache import KeyValueCache
from tinyattn.backend import Array, asarray
from tinyattn.nn import (
    NO_HOOKS,
    Dropout,
    Embedding,
    Hook,
    Hooks,
    LayerNorm,
    LearnedPositions,
    Linear,
    Module,
    Role,
)
from tinyattn.rng import DropoutRNG, generator
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tinyattn.models.config import GPTConfig


class GPT(Module):
    """A causal language model: the logits of the next token at every position.

    Forward: x = dropout(embedding(ids) + positions); each layer; norm; logits = x W
    Shapes:  ids (B, T) -> logits (B, T, V)
    Units:   logits in nats: ln p of each token, plus a constant at each position
    Source:  Radford and others 2019; sizes, biases and initial values as in A5 (assignment 5 of
             Stanford CS224N)
    """

    def __init__(self, config: GPTConfig, *, seed: int = 0, device: str = "cpu") -> None:
        rng = generator(seed)
        self.config = config
        # Computed once for all calls. `cannot`: what the attention type cannot do, and why.
        self.max_length, self.cannot = config.max_length, config.cannot
        self.embedding = Embedding(config.vocabulary, config.width, rng=rng)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(config.context, config.width) if learned else None
        self.dropout = Dropout(config.dropout)
        self.layers = config.new_layers(rng)
        self.norm = LayerNorm(config.width)
        self.head = Linear(config.width, config.vocabulary, rng=rng, bias=False, role=Role.OUTPUT)
        self.perceiver = config.new_arrangement(rng)  # Perceiver AR (models/perceiver.py), or None
        self.to(device)
        for name, parameter in self.named_parameters():
            parameter.name = name

    @property
    def device(self) -> str:
        """The device of the parameters: "cpu" or "cuda"."""
        return self.embedding.weight.device

    def __call__(
        self,
        ids: Any,
        *,
        dropout_rng: DropoutRNG | None = None,
        cache: list[KeyValueCache] | None = None,
        hooks: Mapping[str, Hook] | None = None,
    ) -> Tensor:
        """The logits at every position of `ids`.

        Args:
            ids: the token ids, integers (B, T).
            dropout_rng: the random bits for dropout in training; None means no dropout.
            cache: from `new_cache`; `ids` are then the tokens after those in the cache.
            hooks: functions that see or change activations, by their names (nn/hooks.py); not
                with a cache.
        Raises: ValueError if the sequence is longer than the context, or for a hook whose name is
            not that of an activation of this model; IndexError for an unknown id.
        """
        ids = self.checked(ids)
        if cache is not None and "cache" in self.cannot:
            raise ValueError(f"GPT: cannot use a cache: {self.cannot['cache']}")
        start = cache[0].length if cache else 0
        stop = start + ids.shape[1]
        if stop > self.max_length:
            raise ValueError(
                f"GPT: a sequence of {stop} tokens is longer than the context of "
                f"{self.max_length}; shorten it, or use a model with a larger context"
            )
        x_BTC = self.embedding(ids)  # axes: B sequences, T positions, C elements each
        if self.positions is not None:
            x_BTC = x_BTC + self.positions(start, stop)
        run = Hooks(hooks) if hooks else NO_HOOKS
        x_BTC = run("embedding", self.dropout(x_BTC, dropout_rng))
        if self.perceiver is not None:
            x_BTC = self.perceiver(x_BTC, self.layers, dropout_rng, run)
        else:
            for i, layer in enumerate(self.layers):
                x_BTC = layer(
                    x_BTC,
                    causal=True,
                    dropout_rng=dropout_rng,
                    cache=cache[i] if cache else None,
                    hooks=run.inside(f"layers.{i}"),
                )
                x_BTC = run(f"layers.{i}", x_BTC)
        run.check(len(self.layers))
        return self.head(self.norm(x_BTC))

    def new_cache(self) -> list[KeyValueCache]:
        """An empty cache for one sequence, or for a batch that is generated together."""
        return [KeyValueCache(self.config.context) for _ in self.layers]

    def checked(self, ids: Any) -> Array:
        """`ids` on the model's device. A NumPy array is checked: a GPU reports no invalid ids."""
        if not hasattr(ids, "shape"):
            ids = np.asarray(ids)
        if len(ids.shape) != 2 or ids.dtype.kind not in "iu":
            raise ValueError(f"GPT: ids must be integers (B, T); got {ids.dtype} {ids.shape}")
        if isinstance(ids, np.ndarray) and ids.size:
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.config.vocabulary:
                raise IndexError(
                    f"GPT: ids must lie in 0..{self.config.vocabulary - 1}; got {low}..{high}"
                )
        return asarray(ids, device=self.device)
