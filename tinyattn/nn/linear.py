"""Chapter 2: a linear layer, and one that drops.

A layer is an operation with its parameters; dropout has none. Parameters begin at random, from a
seeded generator on the host, so with the same numbers on every device. Next: who may look at whom
(attention/masks.py).
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
    from tinyattn.noise import Noise

Initialiser = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]


def normal(std: float) -> Initialiser:
    """N(0, std²)."""
    return lambda shape, rng: rng.standard_normal(shape, np.float32) * np.float32(std)


A5 = normal(0.02)
"""How CS224N assignment 5 begins every matrix and the embedding (its positions begin at 0)."""


class Linear(Module):
    """y = x W + b. Shapes: x (..., n_in), W (n_in, n_out), b (n_out,) -> y (..., n_out)."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        init: Initialiser = A5,
        role: Role = Role.HIDDEN,
    ) -> None:
        self.weight = Parameter(init((n_in, n_out), rng), role=role)
        self.bias = Parameter(np.zeros(n_out, np.float32), role=Role.BIAS) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class Dropout(Module):
    """Zeros a share `rate` of x while training, that is, when given noise. Shapes: as x."""

    def __init__(self, rate: float) -> None:
        check_rate(rate, "Dropout: rate")
        self.rate = rate

    def __call__(self, x: Tensor, noise: Noise | None = None) -> Tensor:
        if noise is None or self.rate == 0:
            return x
        return ops.dropout(x, rate=self.rate, noise=noise)
