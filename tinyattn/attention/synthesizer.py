"""Chapter 6: synthesizers, attention without keys.

Must a query meet keys at all? A synthesizer computes the scores of position t from x_t alone, or
learns them as parameters. It learns which positions to attend to, and its choice does not depend on
the vectors at those positions (derivations/16_synthesizer.md).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import AttentionBlock, Call
from tinyattn.attention.multihead import combined, merge_heads, split_heads
from tinyattn.nn import Linear, Parameter, Role, normal, uniform
from tinyattn.tensor import Tensor


class Synthesizer(AttentionBlock):
    """Dense synthesizer: each position computes its scores from itself.

    Forward: y_h = softmax(relu(x A_h + a_h) B + b) x W_v for head h; y = [y_1 .. y_H] W_o + b_o
    Shapes:  x (B, T, C), A_h, W_v (C, D), B (D, N), b (N,), W_o (C, C) -> y (B, T, C); the first T
             columns of B and b are used. Masked positions must be finite: their values are
             multiplied by the weight 0, unlike in ops.attention
    Units:   scores in nats, not scaled
    Raises:  ValueError for a sequence longer than N, or if H does not divide C
    Source:  Tay and others 2020, section 3.1, as in A5 (assignment 5 of Stanford CS224N): the heads
             share B and b, whose initial values are within ±0.001 and 0

    Args:
        length: N; 0 means `max_length`. A5 has 127 columns in a model of 128 positions.
    """

    cannot: ClassVar[dict[str, str]] = {
        "context": "its scores are for positions of its own sequence",
        "rotary": "it has no queries and keys to rotate",
        "any length": "each position has a learned column of scores",
    }
    multiply_adds = "3·T·C² + 2·T²·C"
    kept_elements = "H·T² + 3·T·C"

    def build(self, rng: np.random.Generator, *, length: int = 0) -> None:
        """Make the parameters of the scores, and two linear maps."""
        if length < 0:
            raise ValueError(
                f"Synthesizer: length must be at least 1, or 0 for `max_length`; got {length}"
            )
        self.max_length = length or self.max_length
        self._make_scores(rng)
        self.value, self.out = (Linear(self.width, self.width, rng=rng) for _ in range(2))

    def _make_scores(self, rng: np.random.Generator) -> None:
        """Make the parameters of the scores."""
        self.hidden = Linear(self.width, self.width, rng=rng)
        self.scores = Linear(
            self.width // self.heads, self.max_length, rng=rng, init=uniform(0.001)
        )

    def _scores(self, x: Tensor, start: int) -> Tensor:
        """The scores (B, H, T, S) of the positions of x; the first of them is position `start`."""
        hidden_BHTD, stop = ops.relu(split_heads(self.hidden(x), self.heads)), start + x.shape[1]
        assert self.scores.bias is not None
        return ops.linear(hidden_BHTD, self.scores.weight[:, :stop], self.scores.bias[:stop])

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """The output (B, T, C): weights times values in each head, then the output map."""
        start, v_BHSD = call.start, split_heads(self.value(x), self.heads)
        if call.cache is not None:
            (v_BHSD,) = call.cache.append(v_BHSD)
        weights_BHTS = self._weights(x, start, call)
        y_BHTD = self.dropout(weights_BHTS, call.dropout_rng) @ v_BHSD
        if call.hooks:
            y_BHTD = call.hooks.heads(self, x, y_BHTD, call)
        return self.dropout(self.out(merge_heads(y_BHTD)), call.dropout_rng)

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights of every head, (B, H, T, T)."""
        return self._weights(x, 0, call)

    def weighted_values(self, x: Tensor, call: Call) -> Tensor:
        """The values (B, H, T, D); the outputs of the heads are the weights times these."""
        return split_heads(self.value(x), self.heads)

    def _weights(self, x: Tensor, start: int, call: Call) -> Tensor:
        scores_BHTS = self._scores(x, start)
        keys = scores_BHTS.swapaxes(-1, -2)  # only their number matters: one per score
        mask = combined(call.allowed, call.causal, scores_BHTS, keys)
        return ops.softmax(scores_BHTS, mask)


class RandomSynthesizer(Synthesizer):
    """Random synthesizer: the scores are parameters, the same for every sequence.

    Forward: y_h = softmax(R_h) x W_v for head h; y = [y_1 .. y_H] W_o + b_o
    Shapes:  x (B, T, C), R_h (N, N), W_v (C, D), W_o (C, C) -> y (B, T, C); the first T rows and
             columns of R_h are used. Masked positions must be finite: their values are multiplied
             by the weight 0, unlike in ops.attention
    Units:   scores in nats
    Raises:  ValueError for a sequence longer than N, or if H does not divide C
    Source:  Tay and others 2020, section 3.2; "random" is the initial R_h, N(0, 0.02²)
    """

    multiply_adds = "2·T·C² + T²·C"
    kept_elements = "H·T² + 2·T·C"

    def _make_scores(self, rng: np.random.Generator) -> None:
        table = normal(0.02)((self.heads, self.max_length, self.max_length), rng)
        self.table = Parameter(table, role=Role.TABLE)

    def _scores(self, x: Tensor, start: int) -> Tensor:
        """The table's rows of these positions, for every sequence: (B, H, T, S)."""
        B, stop = x.shape[0], start + x.shape[1]
        scores_HTS = self.table[:, start:stop, :stop]
        return scores_HTS.broadcast_to((B, *scores_HTS.shape))
