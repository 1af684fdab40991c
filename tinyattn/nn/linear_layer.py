"""Chapter 2: the modules Linear and Dropout.

Each module is one operation with its parameters; Dropout has no parameters. A seeded generator on
the host draws initial values, so they are equal on all devices. Next: masks (attention/masks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tinyattn import ops
from tinyattn.nn.module import Module, Parameter, Role
from tinyattn.ops.dropout import check_rate
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.rng import DropoutRNG

Initializer = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]


def normal(std: float) -> Initializer:
    """Initial values from the normal distribution N(0, std²)."""
    return lambda shape, rng: rng.standard_normal(shape, np.float32) * np.float32(std)


A5 = normal(0.02)
"""Initial values of matrices and embeddings, as in A5 (assignment 5 of Stanford CS224N)."""


class Linear(Module):
    """y = x W + b. Shapes: x (..., n_in), W (n_in, n_out), b (n_out,) -> y (..., n_out)."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        init: Initializer = A5,
        role: Role = Role.HIDDEN,
    ) -> None:
        self.weight = Parameter(init((n_in, n_out), rng), role=role)
        self.bias = Parameter(np.zeros(n_out, np.float32), role=Role.BIAS) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class Dropout(Module):
    """Dropout with probability `rate`, only in calls with a `dropout_rng`. Shapes: as x."""

    def __init__(self, rate: float) -> None:
        check_rate(rate, "Dropout: rate")
        self.rate = rate

    def __call__(self, x: Tensor, dropout_rng: DropoutRNG | None = None) -> Tensor:
        if dropout_rng is None or self.rate == 0:
            return x
        return ops.dropout(x, rate=self.rate, dropout_rng=dropout_rng)
