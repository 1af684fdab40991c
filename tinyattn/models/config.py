"""Chapter 6: the configuration of a GPT.

A checkpoint contains it, because it is all that is needed to build the model again. A model that
cannot be built is refused here; the error names the field and its possible values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.attention.lookup import (
    ARRANGEMENTS,
    ATTENTION,
    ATTENTION_TYPES,
    max_length_of,
    parse_attention,
    spell_out,
)
from tinyattn.checks import check_numbers, sizes
from tinyattn.models.layer import Layer
from tinyattn.nn import Rotary
from tinyattn.ops.dropout import check_rate


@dataclass(frozen=True)
class GPTConfig:
    """The sizes and other settings of a GPT: all that is needed to build it again.

    The defaults are those of A5 (assignment 5 of Stanford CS224N). A token is one character here.
    Raises: ValueError with the field and its possible values.
    """

    vocabulary: int  # V, number of different tokens
    context: int = 128  # context length: maximum number of tokens in a sequence
    layers: int = 4  # number of layers
    heads: int = 8  # heads of attention in each layer
    width: int = 256  # C (d_model), size of the vector at each position
    dropout: float = 0.1  # probability of dropout
    positions: str = "learned"  # "learned" or "rotary"
    attention: str = "multihead"  # a name in ATTENTION_TYPES, and options: "bigbird,block=16"
    gelu: str = "exact"  # "exact", or "tanh", the faster approximation

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
        name, cannot = self.attention_type[0], self.cannot
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
        if name in ARRANGEMENTS:
            ARRANGEMENTS[name].check_layers(self.layers)
        max_length_of(self.attention, self.context)  # raises an error for options that do not fit
        # With every option, so that a new default does not change a saved model.
        object.__setattr__(self, "attention", spell_out(self.attention, ATTENTION_TYPES))

    @property
    def attention_type(self) -> tuple[str, dict[str, int]]:
        """The name in ATTENTION_TYPES that `attention` contains, and the options."""
        return parse_attention(self.attention, ATTENTION_TYPES)

    @property
    def cannot(self) -> dict[str, str]:
        """What its attention type refuses to do, and why."""
        refusals: dict[str, str] = ATTENTION_TYPES[self.attention_type[0]].cannot
        return refusals

    @property
    def max_length(self) -> int:
        """The maximum length of a sequence: `context`, or less if the attention type needs less."""
        return max_length_of(self.attention, self.context)

    def new_layers(self, rng: np.random.Generator) -> list[Layer]:
        """The layers of the model, with the attention type that `attention` names."""
        name, options = self.attention_type
        if name in ARRANGEMENTS:
            name, options = "multihead", {}
        return new_layers(
            self.layers, name, options,
            width=self.width, heads=self.heads, max_length=self.context, rng=rng,
            dropout=self.dropout, rotary=self.positions == "rotary",
            exact_gelu=self.gelu == "exact",
        )  # fmt: skip

    def new_arrangement(self, rng: np.random.Generator) -> Any:
        """The module that connects the layers; None for one layer after the other."""
        name, options = self.attention_type
        arrange = ARRANGEMENTS.get(name)
        return arrange(self.width, rng=rng, **options) if arrange else None


def new_layers(
    count: int,
    attention: str,
    options: dict[str, int],
    *,
    width: int,
    heads: int,
    max_length: int,
    rng: np.random.Generator,
    dropout: float,
    rotary: bool,
    exact_gelu: bool,
) -> list[Layer]:
    """`count` layers with the attention type of that name in ATTENTION and these options."""

    block_class: Any = ATTENTION[attention]
    common = {"max_length": max_length, "rng": rng, "dropout": dropout,
              "rotary": Rotary if rotary else None}  # fmt: skip
    return [
        Layer(block_class(width, heads, **common, **options), rng=rng, exact_gelu=exact_gelu,
              dropout=dropout)
        for _ in range(count)
    ]  # fmt: skip


def layers_numbers(count: int, width: int) -> int:
    """The number of elements in the matrices of `count` layers: of attention and feed-forward."""
    return count * (4 + 2 * 4) * width**2
