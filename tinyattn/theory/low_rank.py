"""Chapter 10, continued: is attention low rank?

Linformer rests on it. Scores through D numbers have rank D at most, but the exponential of each
makes the rank as large as it can be. What is true is a bound by the next singular value
(derivations/18_linformer.md). Next: what a check finds.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn.backend import asarray
from tinyattn.tensor import Tensor


def singular_values(weights: Tensor) -> np.ndarray:
    """Of a matrix of weights, the largest first: (T, S) -> (min(T, S),)."""
    found: np.ndarray = np.linalg.svd(weights.numpy(), compute_uv=False)
    return found


def truncated(weights: Tensor, rank: int) -> Tensor:
    """The nearest matrix of that rank; its rows need not be weights any more.

    Forward: Σ_{i ≤ rank} σ_i l_i r_iᵀ; the error is σ_{rank + 1} in the spectral norm
    Shapes:  (T, S) -> (T, S)
    Source:  Eckart and Young 1936
    """
    left, size, right = np.linalg.svd(weights.numpy())
    nearest = (left[:, :rank] * size[:rank]) @ right[:rank]
    return Tensor(asarray(nearest, weights.dtype, device=weights.device))


def orthonormal_singular_value(n: int, scale: float) -> float:
    """All singular values but the first, which is 1, of softmax(β X Xᵀ) for orthonormal rows X.

    Forward: σ_2 = .. = σ_n = (e^β - 1)/(e^β + n - 1), β = scale
    Source:  derivations/18_linformer.md
    """
    return -math.expm1(-scale) / (1 + (n - 1) * math.exp(-scale))


def rank_for(weights: Tensor, share: float) -> int:
    """The smallest rank whose singular values have that share of the sum of all squares."""
    energy = np.cumsum(singular_values(weights) ** 2)
    return int(np.searchsorted(energy, share * energy[-1] * (1 - 1e-12)) + 1)
