"""Chapter 6: scores without keys.

Must a query meet keys at all? A synthesizer makes the scores of position t from x_t alone, or
from nothing: it learns at which positions to look, and never looks what stands there before it
decides (derivations/16_synthesizer.md).
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

    Forward: Y_h = softmax(relu(X A_h + a_h) B + b) X V_h for head h; y = [Y_1 .. Y_H] W + c
    Shapes:  x X (B, T, C), A_h, V_h (C, D), B (D, N), b (N,), W (C, C) -> y (B, T, C); the first T
             columns of B and b are used. Hidden positions must be finite: their weight 0 multiplies
             their values, unlike in ops.attention
    Units:   scores in nats, not scaled
    Raises:  ValueError for a sequence longer than N, or if H does not divide C
    Source:  Tay and others 2020, section 3.1, in A5's form: the heads share B and b, which begin
             within ±0.001 and at 0

    Args:
        length: N; 0 stands for `longest`. A5 has 127 columns in a model of 128 positions.
    """

    cannot: ClassVar[dict[str, str]] = {
        "context": "its scores are for positions of its own sequence",
        "rotary": "it has no queries and keys to turn",
        "any length": "each position has a learned column of scores",
    }
    multiply_adds = "3·T·C² + 2·T²·C"
    kept_numbers = "H·T² + 3·T·C"

    def build(self, rng: np.random.Generator, *, length: int = 0) -> None:
        """The parameters that scores come from, and two linear maps."""
        if length < 0:
            raise ValueError(
                f"Synthesizer: length must be at least 1, or 0 for `longest`; got {length}"
            )
        self.longest = length or self.longest
        self._make_scores(rng)
        self.value, self.out = (Linear(self.width, self.width, rng=rng) for _ in range(2))

    def _make_scores(self, rng: np.random.Generator) -> None:
        """The parameters that scores come from."""
        self.hidden = Linear(self.width, self.width, rng=rng)
        self.scores = Linear(self.width // self.heads, self.longest, rng=rng, init=uniform(0.001))

    def _scores(self, x: Tensor, start: int) -> Tensor:
        """(B, H, T, S) scores of x's positions, of which the first is number `start`."""
        hidden_BHTD, stop = ops.relu(split_heads(self.hidden(x), self.heads)), start + x.shape[1]
        assert self.scores.bias is not None
        return ops.linear(hidden_BHTD, self.scores.weight[:, :stop], self.scores.bias[:stop])

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """Weights times values, head by head, put together."""
        start, v_BHSD = call.start, split_heads(self.value(x), self.heads)
        if call.cache is not None:
            (v_BHSD,) = call.cache.append(v_BHSD)
        weights_BHTS = self._weights(x, start, call)
        y_BHTD = self.dropout(weights_BHTS, call.noise) @ v_BHSD
        return self.dropout(self.out(merge_heads(y_BHTD)), call.noise)

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights of every head, (B, H, T, T)."""
        return self._weights(x, 0, call)

    def _weights(self, x: Tensor, start: int, call: Call) -> Tensor:
        scores_BHTS = self._scores(x, start)
        positions = scores_BHTS.swapaxes(-1, -2)  # as many keys as there are scores
        seen = combined(call.allowed, call.causal, scores_BHTS, positions)
        return ops.softmax(scores_BHTS, seen)


class RandomSynthesizer(Synthesizer):
    """Random synthesizer: the scores are learned numbers, the same for every text.

    Forward: Y_h = softmax(R_h) X V_h for head h; y = [Y_1 .. Y_H] W + c
    Shapes:  x X (B, T, C), R_h (N, N), V_h (C, D), W (C, C) -> y (B, T, C); the first T rows and
             columns of R_h are used. Hidden positions must be finite: their weight 0 multiplies
             their values, unlike in ops.attention
    Units:   scores in nats
    Raises:  ValueError for a sequence longer than N, or if H does not divide C
    Source:  Tay and others 2020, section 3.2; "random" is how R_h begins, N(0, 0.02²)
    """

    multiply_adds = "2·T·C² + T²·C"
    kept_numbers = "H·T² + 2·T·C"

    def _make_scores(self, rng: np.random.Generator) -> None:
        table = normal(0.02)((self.heads, self.longest, self.longest), rng)
        self.table = Parameter(table, role=Role.TABLE)

    def _scores(self, x: Tensor, start: int) -> Tensor:
        """The table's rows of these positions, for every text: (B, H, T, S)."""
        B, stop = x.shape[0], start + x.shape[1]
        scores_HTS = self.table[:, start:stop, :stop]
        return scores_HTS.broadcast_to((B, *scores_HTS.shape))
