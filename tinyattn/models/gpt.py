"""Chapter 3: a GPT is a stack of layers that predicts the next symbol.

It gives each symbol a vector, lets the vectors pass through a few rounds of "look at the past" and
"think for yourself", and reads off the last vectors how likely each symbol is to come next. Next:
cross-entropy, the price of a prediction (ops/loss.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinyattn.attention.cache import KeyValueCache
from tinyattn.backend import Array, asarray
from tinyattn.nn import Dropout, Embedding, LayerNorm, LearnedPositions, Linear, Module, Role
from tinyattn.noise import Noise, generator
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.models.config import GPTConfig


class GPT(Module):
    """A causal language model: logits of the next symbol at every position.

    Forward: x = dropout(embedding(ids) + positions); each layer; norm; logits = x W
    Shapes:  ids (B, T) -> logits (B, T, V)
    Units:   logits in nats (log-odds)
    Source:  Radford and others 2019; sizes, biases and initial values as in A5
    """

    def __init__(self, config: GPTConfig, *, seed: int = 0, device: str = "cpu") -> None:
        rng = generator(seed)
        self.config = config
        # Asked in every call, so found out once.
        self.longest, self.cannot = config.longest, config.cannot
        self.embedding = Embedding(config.vocabulary, config.width, rng=rng)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(config.context, config.width) if learned else None
        self.dropout = Dropout(config.dropout)
        self.blocks = config.new_layers(rng)
        self.norm = LayerNorm(config.width)
        self.head = Linear(config.width, config.vocabulary, rng=rng, bias=False, role=Role.OUTPUT)
        self.perceiver = config.new_arrangement(rng)  # or None: one layer after the other
        self.to(device)
        for name, parameter in self.named_parameters():
            parameter.name = name

    @property
    def device(self) -> str:
        """Where the parameters live: "cpu" or "cuda"."""
        return self.embedding.weight.device

    def __call__(
        self,
        ids: Any,
        *,
        noise: Noise | None = None,
        cache: list[KeyValueCache] | None = None,
        watch: list[Tensor] | None = None,
    ) -> Tensor:
        """The logits at every position of `ids`.

        Args:
            ids: integers (B, T).
            noise: the random bits of a training pass; None means no dropout.
            cache: from `new_cache`; `ids` then continues the text that the cache has seen.
            watch: gets the attention weights of every layer appended, for penalties and pictures.
        Raises: ValueError if the text is longer than the context; IndexError for an unknown id.
        """
        ids = self._checked(ids)
        if cache is not None and "cache" in self.cannot:
            raise ValueError(f"GPT: cannot use a cache: {self.cannot['cache']}")
        start = cache[0].length if cache else 0
        stop = start + ids.shape[1]
        if stop > self.longest:
            raise ValueError(
                f"GPT: a text of {stop} symbols does not fit the context {self.longest}"
            )
        x_BTC = self.embedding(ids)
        if self.positions is not None:
            x_BTC = x_BTC + self.positions(start, stop)
        x_BTC = self.dropout(x_BTC, noise)
        if self.perceiver is not None:
            x_BTC = self.perceiver(x_BTC, self.blocks, noise, watch)
        else:
            for i, layer in enumerate(self.blocks):
                x_BTC = layer(
                    x_BTC, causal=True, noise=noise, cache=cache[i] if cache else None, watch=watch
                )
        return self.head(self.norm(x_BTC))

    def new_cache(self) -> list[KeyValueCache]:
        """An empty cache for one text (or one batch of texts that grow together)."""
        return [KeyValueCache(self.config.context) for _ in self.blocks]

    def _checked(self, ids: Any) -> Array:
        """`ids` on the model's device. Host ids are checked first: a GPU would wrap bad ones."""
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
