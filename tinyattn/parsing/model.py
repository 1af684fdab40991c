"""Wing, parsing: a dependency parser, whose last attention heads are relations.

A dependency tree gives for every word its governor (the head of the word, on which it depends) and
the relation between them. Answer sheet 003 (published solutions of a problem set, TTIC 31230) reads
a tree as attention: one attention head for each relation. Here the usual layers attend in both
directions. Then one more set of attention heads scores every word as the governor of every other;
their scores are the output (derivations/21_dependency_heads.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyattn import ops
from tinyattn.attention import ABILITIES, ATTENTION, padding, parse_attention, split_heads
from tinyattn.attention.lookup import max_length_of
from tinyattn.backend import asarray
from tinyattn.checks import check_numbers, sizes
from tinyattn.models.config import layers_numbers, new_layers
from tinyattn.models.layer import Layer
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
    Rotary,
)
from tinyattn.ops.dropout import check_rate
from tinyattn.rng import DropoutRNG, generator
from tinyattn.tensor import Tensor

NO_TOKEN, ROOT = 0, 1
"""Ids of every parser: the padding of a batch, and the root, which is at position 0."""


@dataclass(frozen=True)
class ParserConfig:
    """The sizes of a parser, which are all that is needed to build it again.

    Raises: ValueError with the field and what it should be.
    """

    vocabulary: int  # V, words and tags together, with NO_TOKEN and ROOT
    relations: int  # the attention heads of the output, one for each
    context: int = 128  # words of the longest sentence, and the root
    layers: int = 2
    heads: int = 4
    width: int = 128  # C (d_model)
    label_width: int = 8  # D of the attention heads of the output
    dropout: float = 0.3
    positions: str = "rotary"  # or "learned"
    attention: str = "multihead"  # a name in ATTENTION that can be bidirectional, and options

    def __post_init__(self) -> None:
        sizes(self, "vocabulary", "relations", "context", "layers", "heads", "width", "label_width")
        check_rate(self.dropout, "dropout")
        rows = self.vocabulary + self.context + 2 * self.relations * self.label_width
        check_numbers(
            f"a parser of {self.layers} layers and width {self.width}",
            rows * self.width + layers_numbers(self.layers, self.width),
        )
        if self.positions not in ("learned", "rotary"):
            raise ValueError(f"positions must be 'learned' or 'rotary'; got {self.positions!r}")
        if self.width % self.heads or self.width % 2:
            raise ValueError(
                f"width must be even and divisible by heads {self.heads}; got {self.width}"
            )
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions need an even width per head; got {self.width // self.heads}"
            )
        parse_attention(self.attention, ATTENTION)
        most = max_length_of(self.attention, self.context)
        if most < self.context:
            raise ValueError(
                f"{self.attention!r} takes {most} positions; a sentence has {self.context}"
            )
        needed = ["bidirectional", "padding", *["rotary"] * (self.positions == "rotary")]
        for ability in needed:
            if ability in self.cannot:
                raise ValueError(
                    f"{self.attention!r} cannot be a parser's attention: it cannot "
                    f"{ABILITIES[ability]}: {self.cannot[ability]}"
                )

    @property
    def cannot(self) -> dict[str, str]:
        """What its attention cannot do, and why."""
        return ATTENTION[parse_attention(self.attention, ATTENTION)[0]].cannot

    def new_layers(self, rng: np.random.Generator) -> list[Layer]:
        """New layers of these sizes, with the attention type `attention`."""
        return new_layers(
            self.layers, *parse_attention(self.attention, ATTENTION),
            width=self.width, heads=self.heads, max_length=self.context, rng=rng,
            dropout=self.dropout, rotary=self.positions == "rotary", exact_gelu=False,
        )  # fmt: skip


class Parser(Module):
    """Scores of each word's governor (its head in the tree) and relation.

    Forward: x = dropout(word + tag + positions); each layer, bidirectional; h = norm(x);
             s_kts = q_kt·k_ks/√D + q_t·k_s/√C, queries q linear in the dependent h_t, keys in the
             governor h_s; the first term differs from relation k to relation, the second is the
             same for all, and its queries and keys are rotated by their positions (rotary
             embedding), so that it depends on their distance
    Shapes:  inputs (B, T, 2), a word and its tag, at position 0 ROOT twice -> s (B, T, H, T):
             dependent t, relation k, governor s
    Units:   nats; softmax over relations and governors together gives a word's probabilities
    Raises:  ValueError if the inputs are longer than the context, or have another shape
    Source:  sheet 003, problem 1; Dozat and Manning 2017 score so, with one matrix a relation. A
             word is never its own governor: that score is -∞, and so is that of NO_TOKEN
    """

    def __init__(self, config: ParserConfig, *, seed: int = 0, device: str = "cpu") -> None:
        rng = generator(seed)
        self.config = config
        C, D = config.width, config.label_width
        self.embedding = Embedding(config.vocabulary, C, rng=rng)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(config.context, C) if learned else None
        self.dropout = Dropout(config.dropout)
        self.layers = config.new_layers(rng)
        self.norm = LayerNorm(C)
        self.dependent = Linear(C, config.relations * D, rng=rng, role=Role.OUTPUT)
        self.governor = Linear(C, config.relations * D, rng=rng, role=Role.OUTPUT)
        self.dependent_any = Linear(C, C, rng=rng, role=Role.OUTPUT)
        self.governor_any = Linear(C, C, rng=rng, role=Role.OUTPUT)
        self.rotary = Rotary(C)
        self.to(device)
        for name, parameter in self.named_parameters():
            parameter.name = name

    @property
    def device(self) -> str:
        """The device of the parameters: "cpu" or "cuda"."""
        return self.embedding.weight.device

    def __call__(
        self,
        inputs: np.ndarray,
        *,
        dropout_rng: DropoutRNG | None = None,
        hooks: Mapping[str, Hook] | None = None,
    ) -> Tensor:
        """The scores of a batch of sentences, in host memory, each padded with NO_TOKEN.

        Args:
            dropout_rng: the dropout RNG of a training pass; None means no dropout.
            hooks: functions that see or change activations, by their names (nn/hooks.py).
        """
        if inputs.ndim != 3 or inputs.shape[2] != 2 or inputs.shape[1] > self.config.context:
            raise ValueError(
                f"Parser: inputs must be (B, T, 2), T at most {self.config.context}; got "
                f"{inputs.shape}"
            )
        T = inputs.shape[1]
        real_B11T = padding((inputs[..., 0] != NO_TOKEN).sum(axis=1), T)
        real = asarray(real_B11T, device=self.device)
        x_BTC = self.embedding(asarray(inputs, device=self.device)).sum(axis=2)
        if self.positions is not None:
            x_BTC = x_BTC + self.positions(0, T)
        run = Hooks(hooks) if hooks else NO_HOOKS
        x_BTC = run("embedding", self.dropout(x_BTC, dropout_rng))
        for i, layer in enumerate(self.layers):
            x_BTC = layer(x_BTC, allowed=real, dropout_rng=dropout_rng,
                          hooks=run.inside(f"layers.{i}"))  # fmt: skip
            x_BTC = run(f"layers.{i}", x_BTC)
        run.check(len(self.layers))
        h_BTC = self.dropout(self.norm(x_BTC), dropout_rng)
        H, D, C = self.config.relations, self.config.label_width, self.config.width
        q_BHTD = split_heads(self.dependent(h_BTC), H)
        k_BHSD = split_heads(self.governor(h_BTC), H)
        scores_BHTS = q_BHTD @ k_BHSD.swapaxes(-1, -2) * (1 / math.sqrt(D))
        q_BTC = self.rotary(self.dependent_any(h_BTC))
        k_BSC = self.rotary(self.governor_any(h_BTC))
        shared_BTS = q_BTC @ k_BSC.swapaxes(-1, -2)
        scores_BHTS = scores_BHTS + shared_BTS.expand_dims(1) * (1 / math.sqrt(C))
        others = asarray(real_B11T & ~np.eye(T, dtype=bool), device=self.device)
        return ops.where(others, scores_BHTS, -math.inf).transpose(0, 2, 1, 3)
