"""Chapter 6: Muon, an optimizer that updates a weight matrix as a whole.

Every matrix has a singular value decomposition U S Vᵀ: it projects on the columns of V, scales by
the singular values in S, and maps to the columns of U. U Vᵀ is the same map with all scales 1. A
polynomial computes U Vᵀ by matrix products alone, without computing U or V. Muon replaces the
gradient by such a matrix, so that every direction of the weights moves equally far.
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
"""(a, b, c) of each step, found in derivations/24_muon.md. Each polynomial maps its inputs as near
to 1 as its degree allows: the first one all inputs from 0.003 to 1, the last one to within 0.2."""


def orthogonal(xp: Any, g: Array) -> Array:
    """The matrix with g's singular vectors and all singular values near 1, except tiny ones.

    Forward: X ← (aI + bA + cA²)X, A = XXᵀ, for each (a, b, c), from X = g/size. Each singular
             value σ becomes aσ + bσ³ + cσ⁵; its vectors stay the same (derivations/24_muon.md)
    Shapes:  (..., M, N) -> (..., M, N), one matrix for each index of the first axes
    Source:  Jordan and others 2024, with polynomials by the rule of Amsel and others 2025.
             Differs: size is (Σσ⁸)^⅛, which is closer to the largest σ than their (Σσ²)^½
    """
    # Elements up to 1, so that their squares and fourth powers stay in float32's range.
    largest = abs(g).max(axis=(-2, -1), keepdims=True)
    x = g / xp.maximum(largest, np.finfo(g.dtype).tiny)
    tall = x.shape[-2] > x.shape[-1]
    x = x.swapaxes(-1, -2) if tall else x  # so that A is the smaller of XXᵀ and XᵀX
    A = x @ x.swapaxes(-1, -2)
    size = ((A @ A) ** 2).sum(axis=(-2, -1), keepdims=True) ** 0.125  # Σσ⁸ = |A²|²
    x = x / xp.maximum(size, 1)  # size is at least max |x|, which is 1, or x is 0
    for a, b, c in POLYNOMIALS:
        A = x @ x.swapaxes(-1, -2)
        x = a * x + (b * A + c * A @ A) @ x
    return x.swapaxes(-1, -2) if tall else x


@dispatched
def muon(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, lr: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """One step of Muon."""
    m[...] = momentum * m + g
    u = orthogonal(xp, g + momentum * m)
    w -= lr * (decay * w + math.sqrt(max(1.0, w.shape[-1] / w.shape[-2])) * u)


class Muon(Optimizer):
    """Orthogonalized momentum: every direction of a weight matrix moves equally far.

    Forward: m ← βm + g; u = orthogonal(g + βm); w ← w - lr·(decay·w + s·u),
             s = √max(1, n_out/n_in)
    Source:  Jordan and others 2024 (KellerJordan/Muon), with decoupled weight decay

    Muon updates the matrices between hidden layers, and all of them decay. The time of an update
    does not depend on the batch. For a model of A5's size (assignment 5 of Stanford CS224N) and
    batch 64 it is a twentieth of a training step (benchmarks/muon.py).

    Raises: ValueError for a parameter that is not a matrix (n_in, n_out).
    """

    rule = staticmethod(muon)
    moments = ("velocity",)
    hyperparameters: ClassVar = {"momentum": 0.95}
    alone = "matrix"

    def __init__(self, named: Iterable[tuple[str, Parameter]], **options: Any) -> None:
        super().__init__(named, **{**options, "decays": lambda parameter: True})
        for name, parameter in self.named.items():
            if parameter.ndim != 2:
                raise ValueError(
                    f"Muon: {name} must be a matrix; it has shape {parameter.shape}; give it to "
                    "AdamW, as make_optimizers does"
                )

    @staticmethod
    def takes(parameter: Parameter) -> bool:
        """Whether Muon updates this parameter: not the embedding, the positions or the head."""
        return parameter.role in (Role.HIDDEN, Role.MIXING)
