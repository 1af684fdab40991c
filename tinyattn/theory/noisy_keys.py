"""Chapter 7: keys with Gaussian noise, and one head or two.

Question 1 (c) draws keys around known means: k_i ~ N(μ_i, α I + r_i μ_i μ_iᵀ). The first term of
the covariance is noise in all directions; the second is noise along the mean. For α = 0 only the
second is left: k_i = y_i μ_i with y_i ~ N(1, r_i) (derivations/10_noisy_keys.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from tinyattn.attention.core import attend
from tinyattn.backend import asarray
from tinyattn.tensor import Tensor
from tinyattn.theory.queries import averaging_error

LENGTH_VARIANCE = 0.5
"""r_a, the variance of the factor y of the key k_a = y μ_a in question 1 (c) ii."""

ROUNDING = 1e-8
"""The tolerance for a symmetric, semidefinite covariance, relative to its largest element."""


def noisy_keys(
    rng: np.random.Generator,
    means: Tensor,
    spread: float,
    length_variances: Sequence[float],
    draws: int,
) -> Tensor:
    """Random draws of all keys from their normal distributions.

    Forward: k_i = y_i μ_i + √α g_i, y_i ~ N(1, r_i), g_i ~ N(0, I): so k_i has mean μ_i and
             covariance α I + r_i μ_i μ_iᵀ
    Shapes:  means (n, D), length_variances r (n,) -> (N, n, D), N = draws
    Raises:  ValueError for a variance below 0, not one for each key, or means that are no matrix
    Source:  answer sheets, question 1 (c)

    Args: spread: α, the variance in each direction.
    """
    n, D = _of_keys("noisy_keys", means)
    if len(length_variances) != n or min(length_variances, default=0) < 0 or spread < 0:
        raise ValueError(f"noisy_keys: needs a variance of at least 0 for each of the {n} keys; "
                         f"got {list(length_variances)} and spread {spread}")  # fmt: skip
    lengths = 1 + np.sqrt(length_variances) * rng.standard_normal((draws, n))
    around = np.sqrt(spread) * rng.standard_normal((draws, n, D))
    here = {"dtype": means.dtype, "device": means.device}
    return means * Tensor(lengths[..., None], **here) + Tensor(around, **here)


def normal_keys(
    rng: np.random.Generator, means: Tensor, covariances: np.ndarray, draws: int
) -> Tensor:
    """Random draws of all keys from normal distributions with any covariances.

    Forward: k_i = μ_i + A_i g_i, A_i A_iᵀ = Σ_i, g_i ~ N(0, I): so k_i has mean μ_i and covariance
             Σ_i; `noisy_keys` is the case Σ_i = α I + r_i μ_i μ_iᵀ
    Shapes:  means (n, D), covariances Σ (n, D, D), on the host -> (N, n, D), N = draws
    Raises:  ValueError for means that are no matrix, and unless each key has a covariance that is
             finite, symmetric and positive semidefinite
    Source:  sheets, question 1 (c)
    """
    n, D = _of_keys("normal_keys", means)
    given = np.asarray(covariances, dtype=float)
    if given.shape != (n, D, D):
        raise ValueError(f"normal_keys: covariances must be {(n, D, D)}, one for each key; "
                         f"got {given.shape}")  # fmt: skip
    around = np.einsum("idj,rij->rid", _factors(given), rng.standard_normal((draws, n, D)))
    keys: Tensor = means + Tensor(around, dtype=means.dtype, device=means.device)
    return keys


def lengthened(means: Tensor, lengths: Any) -> Tensor:
    """The keys y_i μ_i: noise along the means only.

    Shapes:  means (n, D), lengths y (.., n) -> (.., n, D)
    Raises:  ValueError if there is not a length for each key
    Source:  derivations/10_noisy_keys.md
    """
    n = _of_keys("lengthened", means)[0]
    y = asarray(lengths, means.dtype, device=means.device)
    if y.shape[-1:] != (n,):
        raise ValueError(f"lengthened: needs a length for each of the {n} keys; got {y.shape}")
    keys: Tensor = means * y[..., None]
    return keys


def stratified_lengths(draws: int, variance: float = LENGTH_VARIANCE) -> np.ndarray:
    """Quantiles of N(1, r) in place of random draws: the middle of N parts of equal probability.

    Forward: y_i = 1 + √r Φ⁻¹((i + ½)/N), r = variance
    Shapes:  (N,), N = draws
    Raises:  ValueError for a variance below 0, or no draws
    Source:  derivations/10_noisy_keys.md
    """
    if draws < 1 or not variance >= 0:
        raise ValueError("stratified_lengths: needs draws >= 1 and variance >= 0; "
                         f"got {draws} and {variance}")  # fmt: skip
    normal = NormalDist()
    return np.array([1 + variance**0.5 * normal.inv_cdf((i + 0.5) / draws) for i in range(draws)])


def window_bound(n: int, size: float, distance: float) -> float:
    """A bound of one head's error for the mean of two values, in diameters of the set of values.

    Keys may be anywhere within `distance` of their orthonormal means. The first term decreases with
    the size of the query, the second grows: both are small if M - ln n ≫ 1 and M ≪ 1/distance.

    Forward: |c - (v_a + v_b)/2| / max |v_i - v_j| ≤ (n - 2)/(n - 2 + 2 e^M) + tanh(M δ/√2) for
             q = M (μ_a + μ_b), M = size, δ = distance ≥ max |k_i - μ_i|
    Raises:  ValueError for a size or a distance below 0, or fewer than 2 keys
    Source:  derivations/10_noisy_keys.md
    """
    if n < 2 or not (size >= 0 and distance >= 0):
        raise ValueError("window_bound: needs n >= 2, size >= 0 and distance >= 0; "
                         f"got {n}, {size} and {distance}")  # fmt: skip
    return averaging_error(n, size) + math.tanh(size * distance / math.sqrt(2))


def one_head(keys: Tensor, values: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Output and weights of a query, for every draw of the keys.

    Forward: c = Σ_i α_i v_i, α = softmax(K q)
    Shapes:  keys (.., n, D), values (n, E), query (D,) -> c (.., E), α (.., n)
    Raises:  ValueError if the values are not one matrix with a row for each key, or the query is
             not one vector of a key's size
    Source:  A5 (assignment 5 of Stanford CS224N), question 1
    """
    if values.ndim != 2 or values.shape[0] != keys.shape[-2]:
        raise ValueError(
            "one_head: values must be (n, E), a row for each key; "
            f"got {values.shape} for keys {keys.shape}"
        )
    if query.shape != keys.shape[-1:]:
        raise ValueError(
            f"one_head: query must be ({keys.shape[-1]},), as a key is; got {query.shape}"
        )
    return attend(query, keys, values)


def two_heads(keys: Tensor, values: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of the outputs of two heads, and that of their weights.

    Forward: c = (c_1 + c_2)/2, each with a query of its own
    Shapes:  keys (.., n, D), values (n, E), queries (D,) -> c (.., E), weights (.., n)
    Raises:  as `one_head`
    Source:  A5, question 1 (d)
    """
    (c_1, weights_1), (c_2, weights_2) = (one_head(keys, values, q) for q in (first, second))
    return (c_1 + c_2) / 2, (weights_1 + weights_2) / 2


def _factors(covariances: np.ndarray) -> np.ndarray:
    """A with A Aᵀ = Σ, by eigenvectors; Cholesky's method needs a definite Σ: (n, D, D).

    Raises: ValueError unless each Σ is finite, symmetric and positive semidefinite.
    """
    rounding = ROUNDING * np.abs(covariances).max(axis=(-2, -1), initial=0)
    if not np.isfinite(covariances).all() or (
        np.abs(covariances - covariances.swapaxes(-1, -2)) > rounding[:, None, None]
    ).any():  # fmt: skip
        raise ValueError("normal_keys: covariances must be finite and symmetric; got others")
    sizes, directions = np.linalg.eigh(covariances)
    if (sizes < -rounding[:, None]).any():
        raise ValueError("normal_keys: covariances must be positive semidefinite; "
                         f"got an eigenvalue of {sizes.min():.3g}")  # fmt: skip
    factors: np.ndarray = directions * np.sqrt(np.maximum(sizes, 0))[:, None, :]
    return factors


def _of_keys(where: str, means: Tensor) -> tuple[int, int]:
    """n and D. Raises: ValueError unless the means are one matrix, with a row for each key."""
    if means.ndim != 2:
        raise ValueError(f"{where}: means must be (n, D), a row for each key; got {means.shape}")
    return means.shape[0], means.shape[1]
