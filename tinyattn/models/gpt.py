"""Chapter 6, continued: a GPT is a stack of layers that predicts the next symbol.

It gives each symbol a vector, lets the vectors pass through a few rounds of "look at the past" and
"think for yourself", and reads off the last vectors how likely each symbol is to come next. Next:
writing with it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.attention import ATTENTION, KeyValueCache, parse_attention, spell_out
from tinyattn.backend import Array, asarray
from tinyattn.limits import check_numbers, sizes
from tinyattn.models.layer import Layer, layers_numbers, narrow_block, new_layers
from tinyattn.models.perceiver import Perceiver
from tinyattn.nn import Dropout, Embedding, LayerNorm, LearnedPositions, Linear, Module, Role
from tinyattn.noise import Noise, check_rate, generator
from tinyattn.tensor import Tensor

MECHANISMS: Mapping[str, Any] = ChainMap({"perceiver": Perceiver}, ATTENTION)
"""What `attention` may name: a block for every layer, or a way to put layers together."""


def possible_positions(attention: str, wanted: str) -> str:
    """The positions that are wanted, or learned ones if the attention cannot have rotary ones.

    Raises: ValueError if there is no such attention.
    """
    name, _ = parse_attention(attention, MECHANISMS)
    return "learned" if "rotary" in MECHANISMS[name].cannot else wanted


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
    attention: str = "multihead"  # a name in MECHANISMS, and options: "bigbird,block=16"
    gelu: str = "exact"  # or "tanh", the faster approximation

    def __post_init__(self) -> None:
        sizes(self, "vocabulary", "context", "layers", "heads", "width")
        check_rate(self.dropout, "dropout")
        tables = (2 * self.vocabulary + self.context) * self.width
        check_numbers(
            f"a GPT of {self.layers} layers and width {self.width}",
            tables + layers_numbers(self.layers, self.width),
        )
        if self.width % self.heads:
            raise ValueError(f"heads must divide width {self.width}; got {self.heads}")
        choices = {"positions": ["learned", "rotary"], "gelu": ["exact", "tanh"]}
        for field, names in choices.items():
            if getattr(self, field) not in names:
                raise ValueError(f"{field} must be one of {names}; got {getattr(self, field)!r}")
        name, cannot = self.mechanism[0], self.cannot
        if "causal" in cannot:
            raise ValueError(f"a GPT needs causal attention, not {name!r}: {cannot['causal']}")
        if self.positions == "rotary" and "rotary" in cannot:
            raise ValueError(
                f"{name!r} cannot have rotary positions: {cannot['rotary']}; use learned ones"
            )
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions need an even width per head; got {self.width // self.heads}"
            )
        if name == "perceiver" and self.layers < 2:
            raise ValueError(f"'perceiver' needs at least 2 layers, down and up; got {self.layers}")
        options = self.mechanism[1]
        if name in ATTENTION:
            narrow_block(name, options, self.context)  # it refuses options that do not fit
        else:
            MECHANISMS[name](1, rng=np.random.default_rng(0), **options)
        # With every option, so that a saved model stays what it is if a default should change.
        object.__setattr__(self, "attention", spell_out(self.attention, MECHANISMS))

    @property
    def mechanism(self) -> tuple[str, dict[str, int]]:
        """The name in MECHANISMS that `attention` says, and the options."""
        return parse_attention(self.attention, MECHANISMS)

    @property
    def cannot(self) -> dict[str, str]:
        """What its attention refuses to do, and why."""
        refusals: dict[str, str] = MECHANISMS[self.mechanism[0]].cannot
        return refusals

    @property
    def longest(self) -> int:
        """The longest text: `context`, or less if the attention was made for less."""
        name, options = self.mechanism
        if name not in ATTENTION:
            return self.context
        return min(self.context, narrow_block(name, options, self.context).longest)

    def new_layers(self, rng: np.random.Generator) -> list[Layer]:
        """The layers of such a model, with the attention that `attention` names."""
        name, options = self.mechanism
        if name not in ATTENTION:  # a way to put layers together
            name, options = "multihead", {}
        return new_layers(
            self.layers, name, options,
            width=self.width, heads=self.heads, longest=self.context, rng=rng,
            dropout=self.dropout, rotary=self.positions == "rotary",
            exact_gelu=self.gelu == "exact",
        )  # fmt: skip


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
        name, options = config.mechanism
        self.perceiver = (
            Perceiver(config.width, rng=rng, **options) if name == "perceiver" else None
        )
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
