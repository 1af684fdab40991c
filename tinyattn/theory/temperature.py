"""Chapter 7: temperature.

A factor β on all scores makes attention sharper; 1/β is a temperature. A score is a product of two
vectors of I numbers, and grows like √I: with β = 1/√I it does not (derivations/13_temperature.md).
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
    """β = 1/√I: scores of independent vectors with variance 1 in each number have variance 1.

    Raises:  ValueError for a width below 1
    Source:  sheet 003, problem 2 (a); Vaswani and others 2017, section 3.2.1
    """
    if not width >= 1:
        raise ValueError(f"score_scale: width must be at least 1; got {width}")
    return 1 / math.sqrt(width)


def score_variance(cov_h: Any, cov_e: Any) -> float:
    """The variance of h·e for independent h and e with mean 0.

    Forward: Var(h·e) = tr(C_h C_e), whatever their distributions
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
    """Mean and variance of scores, each with its weight at inverse temperature β.

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
    """Mean and variance of h·e over all signs, exactly: h = A s and e = B t, s and t of ±1.

    Every sign is as likely as its opposite, so C_h = A Aᵀ and C_e = B Bᵀ.

    Shapes:  A = mix_h (I, M), B = mix_e (I, N); takes 2^(M + N) products
    Raises:  ValueError unless both are matrices with a row for each of the I numbers
    Source:  derivations/13_temperature.md
    """
    if mix_h.ndim != 2 or mix_e.ndim != 2 or mix_h.shape[0] != mix_e.shape[0]:
        raise ValueError("enumerated_moments: mix_h and mix_e must be (I, M) and (I, N); "
                         f"got {mix_h.shape} and {mix_e.shape}")  # fmt: skip
    h, e = (_all_signs(mix) for mix in (mix_h, mix_e))
    return _moments(ops.matmul(h, e.swapaxes(-1, -2)))


def coupled_moments(mix: Tensor, partner: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The same when e is a function of h: what independence was needed for.

    Shapes:  mix (I, M); partner maps all h (2^M, I) to the e that belong to them
    Raises:  ValueError unless mix is a matrix, and partner gives an e for each h
    Source:  derivations/13_temperature.md
    """
    if mix.ndim != 2:
        raise ValueError(f"coupled_moments: mix must be (I, M); got {mix.shape}")
    h = _all_signs(mix)
    e = partner(h)
    if e.shape != h.shape:
        raise ValueError(f"coupled_moments: partner must give an e for each h, {h.shape}; "
                         f"got {e.shape}")  # fmt: skip
    return _moments((h * e).sum(axis=-1))


def _all_signs(mix: Tensor) -> Tensor:
    signs = np.array(list(product([-1.0, 1.0], repeat=mix.shape[1])))
    return ops.matmul(Tensor(signs, dtype=mix.dtype, device=mix.device), mix.swapaxes(-1, -2))


def _moments(scores: Tensor) -> tuple[float, float]:
    mean = scores.mean()
    return mean.item(), ((scores - mean) ** 2).mean().item()
