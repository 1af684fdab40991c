"""Chapter 3: embedding, position embedding, layer norm and feed-forward network as modules.

Attention by itself ignores order. If each key moves to another position together with its value,
the outputs do not change. So the vector of a position is added to the vector of the token there.
Next: checking numbers from users (limits.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyattn import ops
from tinyattn.backend import Array
from tinyattn.nn.linear_layer import A5, Dropout, Initializer, Linear
from tinyattn.nn.module import Module, Parameter, Role
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.nn.hooks import Hooks
    from tinyattn.rng import DropoutRNG


class Embedding(Module):
    """A learned row for each id; `init` draws its initial values, `A5` from N(0, 0.02²).
    Shapes: ids (...) in 0..count-1 -> (..., width)."""

    def __init__(
        self, count: int, width: int, *, rng: np.random.Generator, init: Initializer = A5
    ) -> None:
        self.weight = Parameter(init((count, width), rng), role=Role.TABLE)

    def __call__(self, ids: Array) -> Tensor:
        return ops.embedding(self.weight, ids)


class LearnedPositions(Module):
    """A learned vector for each position, initialized to 0. Shapes: T positions -> (T, C)."""

    def __init__(self, context: int, width: int) -> None:
        self.weight = Parameter(np.zeros((context, width), np.float32), role=Role.TABLE)

    def __call__(self, start: int, stop: int) -> Tensor:
        """The vectors of positions start..stop-1. Raises: ValueError beyond the context."""
        if stop > self.weight.shape[0]:
            raise ValueError(
                f"LearnedPositions: this model has {self.weight.shape[0]} positions; "
                f"got a sequence of {stop}; shorten it, or use a larger context"
            )
        return self.weight[start:stop]


class LayerNorm(Module):
    """Layer norm with a learned gain (PyTorch: weight) and bias. Shapes: (..., width)."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        self.gain = Parameter(np.ones(width, np.float32), role=Role.GAIN)
        self.bias = Parameter(np.zeros(width, np.float32), role=Role.BIAS)
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.gain, self.bias, eps=self.eps)


class FeedForward(Module):
    """Two linear layers with a GELU between them, applied to each position separately.

    Forward: y = dropout(gelu(x W_1 + b_1) W_2 + b_2)
    Shapes:  x (..., C), hidden (..., F) -> y (..., C)
    Source:  Vaswani and others 2017, section 3.3; GELU instead of ReLU, as in GPT-2
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        rng: np.random.Generator,
        exact_gelu: bool = True,
        dropout: float = 0.0,
    ) -> None:
        self.expand = Linear(width, hidden, rng=rng)
        self.contract = Linear(hidden, width, rng=rng)
        self.dropout = Dropout(dropout)
        self.exact_gelu = exact_gelu

    def __call__(
        self, x: Tensor, dropout_rng: DropoutRNG | None = None, hooks: Hooks | None = None
    ) -> Tensor:
        hidden = ops.gelu(self.expand(x), exact=self.exact_gelu)
        if hooks:
            hidden = hooks("hidden", hidden)
        return self.dropout(self.contract(hidden), dropout_rng)
