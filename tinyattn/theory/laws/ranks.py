"""Chapter 7: laws of a matrix of weights P: its rank, its singular values σ, and its entropies."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import Penalty, attend, focus
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Reals, Whole, by_hand
from tinyattn.theory.law import law
from tinyattn.theory.laws.changes import gradient
from tinyattn.theory.low_rank import (
    orthonormal_singular_value,
    rank_for,
    singular_values,
    truncated,
)
from tinyattn.theory.weights import weights_of


@law("18_linformer", ops.attention, singular_values, orthonormal_singular_value,
     n=Whole(2, 5), t=Real(0.3, 1.5), beta=Real(0, 40))  # fmt: skip
def weights_can_have_full_rank(lab: Lab, n: int, t: float, beta: float) -> Finding:
    """Scores t·i·j have rank 1, weights P rank n: det P = Π_(i<k) (e^tk - e^ti)/Π_i Σ_j e^tij.

    For n orthonormal tokens, scores β X Xᵀ, σ_1 = 1, and the n - 1 other singular values are all
    (e^β - 1)/(e^β + n - 1), near 1 if β - ln n ≫ 1.
    """
    i = np.arange(n)
    scores = t * np.outer(i, i)
    weights = weights_of(lab.tensor(scores)).numpy()
    pairs = [math.exp(t * b) - math.exp(t * a) for b in range(n) for a in range(b)]
    det = math.prod(pairs) / np.exp(scores).sum(axis=1).prod()
    tokens = lab.orthonormal(n)
    sigma = singular_values(attend(tokens, tokens, tokens, scale=beta)[1])
    wanted = orthonormal_singular_value(n, beta)
    return every(
        equal("rank of the scores", np.linalg.matrix_rank(scores), 1),
        equal("rank of the weights", np.linalg.matrix_rank(weights), n),
        equal("determinant over its formula", np.linalg.det(weights) / det, 1.0, 1e-5),
        equal("σ_1", sigma[0], 1.0),
        equal("σ_2 to σ_n", sigma[1:], np.full(n - 1, wanted)),
        equal("σ_n", wanted, math.expm1(beta) / (math.exp(beta) + n - 1)),
        at_least("σ_n", wanted, 1 - n * math.exp(-beta)),
    )


@law("18_linformer", truncated, singular_values, rank_for,
     k=Whole(1, 8), more=Whole(1, 8), beta=Real(0, 60))  # fmt: skip
def nearest_of_low_rank(lab: Lab, k: int, more: int, beta: float) -> Finding:
    """The nearest P_k of rank k has the error |P - P_k| = σ_(k+1), so |P V - P_k V| ≤ σ_(k+1) |V|.

    How many singular values have 90 % of the squares depends on how sharp the weights are: 1 if all
    are equal, ⌈0.9 n⌉ if each query attends to its own key; 1 ≤ σ_1 ≤ √(largest column sum). P has
    n = k + more rows.
    """
    n = k + more
    weights = weights_of(lab.normal(n, n) * beta)
    p, sigma, v = weights.numpy(), singular_values(weights), lab.normal(n, 3)
    near, other = truncated(weights, k), ops.matmul(lab.normal(n, k), lab.normal(k, n))
    energy = np.linalg.eigvalsh(p.T @ p)[::-1]
    missed = np.linalg.norm(ops.matmul(weights - near, v).numpy())
    needed = np.count_nonzero(energy.cumsum() < 0.9 * energy.sum() * (1 - 1e-12)) + 1
    alike, sharp = (weights_of(lab.tensor(np.eye(n) * size)) for size in (0, 800))
    return every(
        equal("σ²", sigma**2, energy),
        equal("error of rank k", np.linalg.norm(p - near.numpy(), 2), sigma[k]),
        at_least("error of another matrix", np.linalg.norm(p - other.numpy(), 2), sigma[k]),
        at_most("error of P V", missed, sigma[k] * np.linalg.norm(v.numpy())),
        at_least("σ_1", sigma[0], 1.0),
        at_most("σ_1", sigma[0], math.sqrt(p.sum(axis=0).max())),
        equal("singular values for 90 % of the squares", rank_for(weights, 0.9), needed),
        equal("if all weights are equal", rank_for(alike, 0.9), 1),
        equal("if each attends to its own key", rank_for(sharp, 0.9), math.ceil(9 * n / 10)),
    )


@law("18_linformer", ops.attention, singular_values,
     n=Whole(1, 10), keys=Whole(1, 10), beta=Real(0, 30))  # fmt: skip
def norm_of_weights(lab: Lab, n: int, keys: int, beta: float) -> Finding:
    """√(n/m) ≤ |P| ≤ √(largest column sum) for n queries and m keys; max |P v| ≤ max |v|.

    |P| = σ_1 is √n if all queries attend to one key.
    """
    weights, values = weights_of(lab.normal(n, keys) * beta), lab.normal(keys)
    norm, sums = singular_values(weights)[0], weights.numpy().sum(axis=0)
    one_key = weights_of(lab.tensor(np.eye(keys)[[0] * n] * 800))
    same_rows = singular_values(weights[:1].broadcast_to((n, keys)))[0]
    farthest = np.abs(ops.matmul(weights, values).numpy()).max()
    return every(
        at_least("|P|", norm, math.sqrt(n / keys)),
        at_most("|P|", norm, math.sqrt(sums.max())),
        equal("|P| if all attend to one key", singular_values(one_key)[0], math.sqrt(n)),
        at_most("max |P v|", farthest, np.abs(values.numpy()).max()),
        equal("|P| of equal rows", same_rows, math.sqrt(n) * np.linalg.norm(weights.numpy()[0])),
    )


@law("20_penalties", ops.attention, focus, Penalty, scores=Reals(-2000, 2000, 1, 8))
def entropy_is_at_most_ln_n(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """H = -Σ α_i ln α_i is from 0, for one key, to ln n, for equal weights.

    ∂H/∂s_i = -α_i (ln α_i + H), finite even if weights underflow, and 0 if all are equal. L_focus,
    the mean H of the rows, is ln(n!)/n for equal scores if causal.
    """
    n, s, alike = len(scores), lab.leaf(scores), lab.leaf([0.0] * len(scores))
    found, most = focus(lab.weights(s)), focus(lab.weights(alike))
    weights = by_hand(scores)
    logs = np.log(np.where(weights > 0, weights, 1))
    H = -(weights * logs).sum()
    causal = weights_of(lab.tensor(np.zeros((1, 1, n, n))), causal=True)
    mean = Penalty(focus=1.0)([causal], causal.xp.ones((1, n), dtype=bool), n)
    return every(
        equal("H", found.item(), H),
        at_least("H", found.item(), 0, 0),
        at_most("H", found.item(), math.log(n)),
        equal("∂H/∂s", gradient(found, s), -weights * (logs + H), 1e-10),
        equal("H of one key", focus(lab.tensor(np.eye(n))), np.zeros(n), 0),
        equal("H of equal weights", most.item(), math.log(n)),
        equal("its ∂H/∂s", gradient(most, alike), np.zeros(n)),
        equal("L_focus of equal causal weights", mean.item(), math.lgamma(n + 1) / n),
    )
