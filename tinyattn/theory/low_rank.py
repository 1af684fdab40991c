"""Chapter 7: the rank of attention weights.

Linformer assumes a low rank. The scores of vectors of D elements have rank D at most, but their
softmax can have full rank. The next singular value bounds the error of a lower rank
(derivations/18_linformer.md).
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn.backend import asarray
from tinyattn.tensor import Tensor


def singular_values(weights: Tensor) -> np.ndarray:
    """The singular values of a matrix of weights, the largest first.

    Shapes:  (T, S) -> (min(T, S),)
    Raises:  ValueError unless it is one matrix
    Source:  derivations/18_linformer.md
    """
    _check_matrix("singular_values", weights)
    found: np.ndarray = np.linalg.svd(weights.numpy(), compute_uv=False)
    return found


def truncated(weights: Tensor, rank: int) -> Tensor:
    """The nearest matrix of this rank; its rows need not be attention weights.

    Forward: Σ_{i ≤ rank} σ_i l_i r_iᵀ; the error is σ_{rank + 1} in the spectral norm, the least
    Shapes:  (T, S) -> (T, S)
    Raises:  ValueError unless it is one matrix, and 0 ≤ rank ≤ min(T, S)
    Source:  Mirsky 1960; Eckart and Young 1936 for the sum of squares
    """
    _check_matrix("truncated", weights)
    if not 0 <= rank <= min(weights.shape):
        raise ValueError(f"truncated: rank must be from 0 to {min(weights.shape)}; got {rank}")
    left, size, right = np.linalg.svd(weights.numpy())
    nearest = (left[:, :rank] * size[:rank]) @ right[:rank]
    return Tensor(asarray(nearest, weights.dtype, device=weights.device))


def orthonormal_singular_value(n: int, scale: float) -> float:
    """All singular values except the first, which is 1, of softmax(β X Xᵀ), orthonormal rows X.

    Forward: σ_2 = .. = σ_n = (e^β - 1)/(e^β + n - 1), β = scale
    Raises:  ValueError for a scale below 0, or no rows
    Source:  derivations/18_linformer.md
    """
    if n < 1 or not scale >= 0:
        raise ValueError("orthonormal_singular_value: needs n >= 1 and scale >= 0; "
                         f"got {n} and {scale}")  # fmt: skip
    return -math.expm1(-scale) / (1 + (n - 1) * math.exp(-scale))


def rank_for(weights: Tensor, share: float) -> int:
    """The smallest rank whose squared singular values have this share of the sum of all squares.

    Shapes:  (T, S)
    Raises:  ValueError unless it is one matrix, and 0 < share ≤ 1
    Source:  derivations/18_linformer.md
    """
    _check_matrix("rank_for", weights)
    if not 0 < share <= 1:
        raise ValueError(f"rank_for: share must be above 0 and at most 1; got {share}")
    energy = np.cumsum(singular_values(weights) ** 2)
    return int(np.searchsorted(energy, share * energy[-1] * (1 - 1e-12)) + 1)


def _check_matrix(where: str, weights: Tensor) -> None:
    """Raises: ValueError unless it is one matrix with at least one element."""
    if weights.ndim != 2 or not weights.size:
        raise ValueError(f"{where}: weights must be one matrix, (T, S); got {weights.shape}")
