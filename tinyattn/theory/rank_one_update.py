"""Chapter 7: the rank-one update, the least change of a matrix that gives one input a new output.

A linear map that stores many facts is to be wrong about one of them, and right about the others
(derivations/26_where_it_lies.md). The other facts enter through the second moment of their inputs.
"""

from __future__ import annotations

import numpy as np

RIDGE = 1e-3
"""λ as a fraction of the mean eigenvalue: with fewer keys than dimensions C has no inverse."""


def second_moment(keys: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """The mean of k kᵀ over the rows k, plus λI.

    Forward: C = KᵀK/n + λI, λ = ridge·tr(KᵀK/n)/F
    Shapes:  keys K (n, F) -> C (F, F), float64
    Raises:  ValueError unless keys is a matrix of which some element is not 0
    """
    if keys.ndim != 2 or not keys.any():
        raise ValueError(f"second_moment: keys must be (n, F) and not all 0; got {keys.shape}")
    moment: np.ndarray = keys.astype(np.float64).T @ keys / len(keys)
    moment += ridge * np.trace(moment) / len(moment) * np.eye(len(moment))
    return moment


def rank_one_update(
    keys: np.ndarray, key: np.ndarray, delta: np.ndarray, ridge: float = RIDGE
) -> np.ndarray:
    """The change D of a matrix with key D = delta that changes the outputs of `keys` least.

    Forward: D = C⁻¹k δᵀ/(kᵀC⁻¹k), of all D with kᵀD = δᵀ the one with the smallest tr(DᵀCD): the
             mean of |k_i D|² over the keys, plus λ|D|²
    Shapes:  keys K (n, F), key k (F,), delta δ (C,) -> D (F, C)
    Raises:  ValueError unless the shapes fit, key is not 0, and ridge is above 0
    Source:  ROME, Meng and others 2022, equation 2; derivations/26_where_it_lies.md
    """
    if delta.ndim != 1 or key.shape != keys.shape[1:] or not key.any() or not ridge > 0:
        raise ValueError(
            "rank_one_update: keys must be (n, F), key (F,) and not 0, delta (C,) and ridge above "
            f"0; got {keys.shape}, {key.shape}, {delta.shape} and {ridge}"
        )
    direction = np.linalg.solve(second_moment(keys, ridge), key.astype(np.float64))
    change: np.ndarray = np.outer(direction, delta) / (key @ direction)
    return change
