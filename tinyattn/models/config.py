"""Chapter 6: the sizes of a GPT.

They are all that is needed to build it again, so a checkpoint holds them. Whatever could not be
built is refused here, with the field and what it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.attention.table import (
    ARRANGEMENTS,
    ATTENTION,
    MECHANISMS,
    longest_of,
    parse_attention,
    spell_out,
)
from tinyattn.checks import check_numbers, sizes
from tinyattn.models.layer import Layer
from tinyattn.nn import Rotary
from tinyattn.ops.dropout import check_rate


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
        if name in ARRANGEMENTS:
            ARRANGEMENTS[name].check_layers(self.layers)
        longest_of(self.attention, self.context)  # it refuses options that do not fit
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
        return longest_of(self.attention, self.context)

    def new_layers(self, rng: np.random.Generator) -> list[Layer]:
        """The layers of such a model, with the attention that `attention` names."""
        name, options = self.mechanism
        if name in ARRANGEMENTS:
            name, options = "multihead", {}
        return new_layers(
            self.layers, name, options,
            width=self.width, heads=self.heads, longest=self.context, rng=rng,
            dropout=self.dropout, rotary=self.positions == "rotary",
            exact_gelu=self.gelu == "exact",
        )  # fmt: skip

    def new_arrangement(self, rng: np.random.Generator) -> Any:
        """What puts these layers together other than one after the other; None for that."""
        name, options = self.mechanism
        arrange = ARRANGEMENTS.get(name)
        return arrange(self.width, rng=rng, **options) if arrange else None


def new_layers(
    count: int,
    attention: str,
    options: dict[str, int],
    *,
    width: int,
    heads: int,
    longest: int,
    rng: np.random.Generator,
    dropout: float,
    rotary: bool,
    exact_gelu: bool,
) -> list[Layer]:
    """So many layers with the attention of that name in ATTENTION, made with its options."""

    kind: Any = ATTENTION[attention]
    turn = Rotary if rotary else None
    common = {"longest": longest, "rng": rng, "dropout": dropout, "rotary": turn}
    return [
        Layer(kind(width, heads, **common, **options), rng=rng, exact_gelu=exact_gelu,
              dropout=dropout)
        for _ in range(count)
    ]  # fmt: skip


def layers_numbers(count: int, width: int) -> int:
    """How many parameters the matrices of so many layers have: of the attention and of thinking."""
    return count * (4 + 2 * 4) * width**2
