"""Chapter 7: softmax temperature.

A larger factor β on the scores makes the softmax sharper; 1/β is its temperature. A score is a dot
product of I terms and grows like √I; β = 1/√I prevents this (derivations/13_temperature.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.weights import one_row, weights_of


def score_scale(width: int) -> float:
    """β = 1/√I: for independent elements of mean 0 and variance 1, scores have variance 1.

    Raises:  ValueError for a width below 1
    Source:  answer sheet 003, problem 2 (a); Vaswani and others 2017, section 3.2.1
    """
    if not width >= 1:
        raise ValueError(f"score_scale: width must be at least 1; got {width}")
    return 1 / math.sqrt(width)


def score_variance(cov_h: Any, cov_e: Any) -> float:
    """The variance of h·e for independent h and e with mean 0.

    Forward: Var(h·e) = tr(C_h C_e), for any distributions of h and e
    Shapes:  covariances (I, I)
    Raises:  ValueError unless both have that shape
    Source:  derivations/13_temperature.md
    """
    shapes = np.shape(cov_h), np.shape(cov_e)
    if len(shapes[0]) != 2 or not shapes[0] == shapes[0][::-1] == shapes[1]:
        raise ValueError("score_variance: cov_h and cov_e must both be (I, I); "
                         f"got {shapes[0]} and {shapes[1]}")  # fmt: skip
    return float(np.sum(np.asarray(cov_h) * np.asarray(cov_e)))


def moments_at(scores: Tensor, beta: Tensor | float) -> tuple[Tensor, Tensor]:
    """Mean and variance of scores under the attention weights at inverse temperature β.

    Forward: α = softmax(β s), E = Σ_i α_i s_i, Var = Σ_i α_i (s_i - E)²; with H the entropy of α,
             dE/dβ = Var and dH/dβ = -β Var
    Shapes:  (n,), β () -> (), ()
    Units:   scores s -> mean in units of s, variance in their square; β s in nats
    Raises:  ValueError unless the scores are one row
    Source:  derivations/13_temperature.md
    """
    one_row("moments_at", scores)
    weights = weights_of(scores * beta)
    mean = (weights * scores).sum()
    return mean, (weights * (scores - mean) ** 2).sum()


def enumerated_moments(mix_h: Tensor, mix_e: Tensor) -> tuple[float, float]:
    """Exact mean and variance of h·e, h = A s and e = B t, for random signs s and t.

    Both signs have probability ½ and are independent, so C_h = A Aᵀ and C_e = B Bᵀ.

    Shapes:  A = mix_h (I, M), B = mix_e (I, N); computes 2^(M + N) products
    Raises:  ValueError unless both are matrices of I rows
    Source:  derivations/13_temperature.md
    """
    if mix_h.ndim != 2 or mix_e.ndim != 2 or mix_h.shape[0] != mix_e.shape[0]:
        raise ValueError("enumerated_moments: mix_h and mix_e must be (I, M) and (I, N); "
                         f"got {mix_h.shape} and {mix_e.shape}")  # fmt: skip
    h, e = (_all_signs(mix) for mix in (mix_h, mix_e))
    return _moments(ops.matmul(h, e.swapaxes(-1, -2)))


def coupled_moments(mix: Tensor, partner: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The same if e is a function of h, so that h and e are not independent.

    Shapes:  mix (I, M); partner maps all h (2^M, I) to their e (2^M, I)
    Raises:  ValueError unless mix is a matrix, and partner returns an e for each h
    Source:  derivations/13_temperature.md
    """
    if mix.ndim != 2:
        raise ValueError(f"coupled_moments: mix must be (I, M); got {mix.shape}")
    h = _all_signs(mix)
    e = partner(h)
    if e.shape != h.shape:
        raise ValueError(f"coupled_moments: partner must return an e for each h, {h.shape}; "
                         f"got {e.shape}")  # fmt: skip
    return _moments((h * e).sum(axis=-1))


def _all_signs(mix: Tensor) -> Tensor:
    signs = np.array(list(product([-1.0, 1.0], repeat=mix.shape[1])))
    return ops.matmul(Tensor(signs, dtype=mix.dtype, device=mix.device), mix.swapaxes(-1, -2))


def _moments(scores: Tensor) -> tuple[float, float]:
    mean = scores.mean()
    return mean.item(), ((scores - mean) ** 2).mean().item()
