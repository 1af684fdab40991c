"""Chapter 6: a weight matrix moves as a whole.

Every matrix is U S Vᵀ: it reads along the columns of V, scales by the singular values in S, and
writes along the columns of U. U Vᵀ does the same with all scales 1. A polynomial finds it with
nothing but matrix products, and without ever computing U or V. Muon makes of a gradient such a
matrix, so that every direction of the weights moves equally far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from tinyattn.backend import Array
from tinyattn.dispatch import dispatched
from tinyattn.nn import Parameter, Role
from tinyattn.training.optimizers import Optimizer

POLYNOMIALS = (
    (8.38367, -24.76591, 18.35708),
    (4.04348, -3.01147, 0.56953),
    (3.50555, -2.62634, 0.52559),
    (2.49025, -1.83426, 0.43677),
)
"""(a, b, c) of each step, found on page 24: each takes what it is given as near to 1 as such a
polynomial can, the first all from 0.003 to 1, the last what is left, to within 0.2."""


def orthogonal(xp: Any, g: Array) -> Array:
    """The matrix with g's singular vectors and all singular values near 1, unless they are tiny.

    Forward: X ← (aI + bA + cA²)X, A = XXᵀ, for each (a, b, c), from X = g/size. So each singular
             value σ becomes aσ + bσ³ + cσ⁵, and its vectors stay (derivations/24_muon.md)
    Shapes:  (..., M, N) -> (..., M, N), each matrix by itself
    Source:  Jordan and others 2024, with polynomials by the rule of Amsel and others 2025.
             Differs: size is (Σσ⁸)^⅛, which is nearer to the largest σ than their (Σσ²)^½
    """
    # Numbers up to 1, so that neither their squares nor those of squares leave float32's range.
    largest = abs(g).max(axis=(-2, -1), keepdims=True)
    x = g / xp.maximum(largest, np.finfo(g.dtype).tiny)
    tall = x.shape[-2] > x.shape[-1]
    x = x.swapaxes(-1, -2) if tall else x  # so that A is the smaller square
    A = x @ x.swapaxes(-1, -2)
    size = ((A @ A) ** 2).sum(axis=(-2, -1), keepdims=True) ** 0.125  # Σσ⁸ = |A²|²
    x = x / xp.maximum(size, 1)  # it is at least the largest number in x, and so 1, or x is zero
    for a, b, c in POLYNOMIALS:
        A = x @ x.swapaxes(-1, -2)
        x = a * x + (b * A + c * A @ A) @ x
    return x.swapaxes(-1, -2) if tall else x


@dispatched
def muon(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, rate: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """One step of Muon."""
    m[...] = momentum * m + g
    u = orthogonal(xp, g + momentum * m)
    w -= rate * (decay * w + math.sqrt(max(1.0, w.shape[-1] / w.shape[-2])) * u)


class Muon(Optimizer):
    """Momentum, orthogonalised: every direction of a weight matrix moves equally far.

    Forward: m ← βm + g; u = orthogonal(g + βm); w ← w - rate·(decay·w + s·u),
             s = √max(1, n_out/n_in)
    Source:  Jordan and others 2024 (KellerJordan/Muon), with decoupled weight decay

    Its share of a model are the matrices between hidden layers, which have such directions, and all
    of them decay. An update costs the same whatever the batch: at A5's size and batch 64 a
    twentieth of a training step (benchmarks/muon.py).

    Raises: ValueError for a parameter that is no matrix (n_in, n_out).
    """

    rule = staticmethod(muon)
    moments = ("velocity",)
    numbers: ClassVar = {"momentum": 0.95}
    alone = "matrix"

    def __init__(self, named: Iterable[tuple[str, Parameter]], **options: Any) -> None:
        super().__init__(named, **{**options, "decays": lambda parameter: True})
        for name, parameter in self.named.items():
            if parameter.ndim != 2:
                raise ValueError(f"Muon: {name} must be a matrix; it has shape {parameter.shape}")

    @staticmethod
    def takes(parameter: Parameter) -> bool:
        """Muon's share: not embedding, positions or head."""
        return parameter.role in (Role.HIDDEN, Role.MIXING)
