"""Chapter 6: a GPT is a stack of attention blocks that predicts the next symbol.

Chapter 5 gave us blocks that let positions look at one another. A GPT gives each symbol a vector,
lets the vectors pass through a few rounds of "look at the past" and "think for yourself", and
reads off the last vectors how likely each symbol is to come next. Next: writing with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.attention import ATTENTION, AttentionBlock, KeyValueCache, causal
from tinyattn.backend import Array, asarray
from tinyattn.nn import (
    Dropout,
    Embedding,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    Linear,
    Module,
)
from tinyattn.noise import Noise, check_rate
from tinyattn.tensor import Tensor


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT: all that is needed to build it again. The defaults are A5's.

    Raises: ValueError with the field and what it should be.
    """

    vocabulary: int  # V, number of different symbols
    context: int = 128  # the longest text, in symbols
    layers: int = 4
    heads: int = 8
    width: int = 256  # C, numbers per position
    dropout: float = 0.1
    positions: str = "learned"  # or "rotary"
    attention: str = "multihead"  # a name in tinyattn.attention.ATTENTION
    gelu: str = "exact"  # or "tanh", the faster approximation

    def __post_init__(self) -> None:
        for field in ("vocabulary", "context", "layers", "heads", "width"):
            if not isinstance(getattr(self, field), int) or getattr(self, field) < 1:
                raise ValueError(
                    f"{field} must be a whole number above 0; got {getattr(self, field)}"
                )
        check_rate(self.dropout, "dropout")
        if self.width % self.heads:
            raise ValueError(f"heads must divide width {self.width}; got {self.heads}")
        choices = {"positions": ["learned", "rotary"], "gelu": ["exact", "tanh"],
                   "attention": sorted(ATTENTION)}  # fmt: skip
        for field, names in choices.items():
            if getattr(self, field) not in names:
                raise ValueError(f"{field} must be one of {names}; got {getattr(self, field)!r}")
        if not ATTENTION[self.attention].causal:
            raise ValueError(f"a GPT needs causal attention, which {self.attention!r} is not")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions need an even width per head; got {self.width // self.heads}"
            )


class Block(Module):
    """One round: look around, then think, each added to what was there before.

    Forward: x ← x + attention(norm_1 x); x ← x + feedforward(norm_2 x)
    Shapes:  x (B, T, C) -> (B, T, C)
    Source:  Radford and others 2019, section 2.3 (the norm before each part, not after)
    """

    def __init__(self, config: GPTConfig, rng: np.random.Generator) -> None:
        C = config.width
        self.norm_1 = LayerNorm(C)
        self.attention: AttentionBlock = ATTENTION[config.attention](
            C, config.heads, rng=rng, dropout=config.dropout, rotary=config.positions == "rotary"
        )
        self.norm_2 = LayerNorm(C)
        self.feedforward = FeedForward(
            C, 4 * C, rng=rng, exact_gelu=config.gelu == "exact", dropout=config.dropout
        )

    def __call__(
        self, x: Tensor, allowed: Array, noise: Noise | None, cache: KeyValueCache | None
    ) -> Tensor:
        x = x + self.attention(self.norm_1(x), allowed=allowed, noise=noise, cache=cache)
        return x + self.feedforward(self.norm_2(x), noise)


class GPT(Module):
    """A causal language model: logits of the next symbol at every position.

    Forward: x = dropout(embedding(ids) + positions); each block; norm; logits = x W
    Shapes:  ids (B, T) -> logits (B, T, V)
    Units:   logits in nats (log-odds)
    Source:  Radford and others 2019; sizes, biases and initial values as in A5
    """

    def __init__(self, config: GPTConfig, *, seed: int = 0, device: str = "cpu") -> None:
        rng = np.random.default_rng(seed)
        self.config = config
        self.embedding = Embedding(config.vocabulary, config.width, rng=rng)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(config.context, config.width) if learned else None
        self.dropout = Dropout(config.dropout)
        self.blocks = [Block(config, rng) for _ in range(config.layers)]
        self.norm = LayerNorm(config.width)
        self.head = Linear(config.width, config.vocabulary, rng=rng, bias=False)
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
    ) -> Tensor:
        """The logits at every position of `ids`.

        Args:
            ids: integers (B, T).
            noise: the random bits of a training pass; None means no dropout.
            cache: from `new_cache`; `ids` then continues the text that the cache has seen.
        Raises: ValueError if the text is longer than the context; IndexError for an unknown id.
        """
        ids = self._checked(ids)
        start = cache[0].length if cache else 0
        stop = start + ids.shape[1]
        if stop > self.config.context:
            raise ValueError(
                f"GPT: a text of {stop} symbols does not fit the context {self.config.context}"
            )
        x_BTC = self.embedding(ids)
        if self.positions is not None:
            x_BTC = x_BTC + self.positions(start, stop)
        x_BTC = self.dropout(x_BTC, noise)
        allowed = causal(ids.shape[1], stop, xp=x_BTC.xp)
        for i, block in enumerate(self.blocks):
            x_BTC = block(x_BTC, allowed, noise, cache[i] if cache else None)
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
