"""Chapter 7: question 2 (g), continued: Linformer, and the rank of attention weights."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import AttentionBlock, Linformer, MultiHead, influence
from tinyattn.attention.core import attend
from tinyattn.nn import Parameter
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.claims.other_types import C, D, H, new, work_of
from tinyattn.theory.cost import formula_value
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.low_rank import (
    orthonormal_singular_value,
    rank_for,
    singular_values,
    truncated,
)
from tinyattn.theory.weights import weights_of

FEW = 0.125
"""The largest fraction of the singular values that counts as "a few"."""


def weights_of_rank_one(lab: Lab, n: int, t: float) -> np.ndarray:
    """The softmax of the scores t·i·j, which have rank 1."""
    i = np.arange(n)
    return weights_of(lab.tensor(t * np.outer(i, i))).numpy()


def refuses_to_be_causal(block: AttentionBlock, x: Tensor) -> bool:
    """Whether it raises an error for causal=True."""
    try:
        block(x, causal=True)
    except ValueError as error:
        return "causal" in str(error)
    return False


# What is true --------------------------------------------------------------------------------


def full_rank(lab: Lab, n: int, t: float, beta: float) -> Finding:
    """Scores t·i·j: det = Π (e^tk - e^ti)/Π Σ e^tij. Orthonormal tokens: σ_2 = .. = σ_n."""
    weights = weights_of_rank_one(lab, n, t)
    i = np.arange(n)
    pairs = [math.exp(t * b) - math.exp(t * a) for b in range(n) for a in range(b)]
    det = math.prod(pairs) / np.exp(t * np.outer(i, i)).sum(axis=1).prod()
    tokens = lab.orthonormal(n)
    sigma = singular_values(attend(tokens, tokens, tokens, scale=beta)[1])
    wanted = orthonormal_singular_value(n, beta)
    return every(
        equal("rank", np.linalg.matrix_rank(weights), n),
        equal("determinant over its formula", np.linalg.det(weights) / det, 1.0, 1e-5),
        equal("σ_1", sigma[0], 1.0),
        equal("σ_2 to σ_n", sigma[1:], np.full(n - 1, wanted)),
        equal("σ", wanted, math.expm1(beta) / (math.exp(beta) + n - 1)),
    )


def nearest_of_low_rank(lab: Lab, k: int, more: int, beta: float) -> Finding:
    """The error is the next singular value, no other matrix has a smaller one, and σ_1 ≥ 1."""
    n = k + more
    weights = weights_of(lab.normal(n, n) * beta)
    p, sigma, v = weights.numpy(), singular_values(weights), lab.normal(n, 3)
    near, other = truncated(weights, k), ops.matmul(lab.normal(n, k), lab.normal(k, n))
    energy = np.linalg.eigvalsh(p.T @ p)[::-1]
    most = rank_for(weights, 0.9)
    missed = np.linalg.norm(ops.matmul(weights - near, v).numpy())
    return every(
        equal("σ²", sigma**2, energy),
        equal("error of rank k", np.linalg.norm(p - near.numpy(), 2), sigma[k]),
        at_least("error of another matrix", np.linalg.norm(p - other.numpy(), 2), sigma[k]),
        at_most("error of P V", missed, sigma[k] * np.linalg.norm(v.numpy())),
        at_least("σ_1", sigma[0], 1.0),
        at_most("σ_1", sigma[0], math.sqrt(p.sum(axis=0).max())),
        at_least("share of the first squares", energy[:most].sum() / energy.sum(), 0.9),
        at_most("share with one fewer", energy[: most - 1].sum() / energy.sum(), 0.9),
    )


def few_keys_of_full_width(lab: Lab, n: int, k: int) -> Finding:
    """Each of k keys mixes all positions; if E = F is a permutation, attention is dense."""
    block, x = new(lab, Linformer, n, rows=k), lab.normal(1, n, C)
    q, plain = block.queries_and_keys(x, x)
    keys = ops.matmul(block.mix_keys, plain)
    weights = attend(q, keys, keys, scale=1 / math.sqrt(D))[1]
    dense, whole = new(lab, MultiHead, n), new(lab, Linformer, n, rows=n)
    for name in ("query", "key", "value", "out"):
        setattr(whole, name, getattr(dense, name))
    order = Parameter(np.eye(n)[lab.rng.permutation(n)], device=lab.device)
    whole.mix_keys = whole.mix_values = order
    return every(
        equal("shape of the keys", keys.shape, (1, H, k, D)),
        equal("weights", block.weights(x), weights),
        equal("outputs, E and F a permutation,", whole(x), dense(x)),
        fact(influence(block, n, False).all(), "all inputs change all outputs", "not all do"),
        fact(refuses_to_be_causal(block, x), "it cannot be causal", "it can be causal"),
    )


def cheaper_below_half(lab: Lab, n: int, k: int) -> Finding:
    """The work is (2d + 2k)/(2d + n) of dense attention, so less if and only if k < n/2."""
    x = lab.normal(1, n, C)
    work, dense = work_of(new(lab, Linformer, n, rows=k), x), work_of(new(lab, MultiHead, n), x)
    formula = formula_value(Linformer.multiply_adds, {"T": n, "C": C, "R": k})
    return every(
        equal("work by the block's formula", float(formula), work),
        equal("work over dense work", work / dense, (2 * C + 2 * k) / (2 * C + n)),
        fact((work < dense) == (2 * k < n), "less iff k < n/2", "not: less iff k < n/2"),
    )


# What the sheets say -------------------------------------------------------------------------


def below_full_rank(lab: Lab, n: int, t: float) -> Finding:
    """The rank is below n."""
    weights = weights_of_rank_one(lab, n, t)
    rank, det = np.linalg.matrix_rank(weights), np.linalg.det(weights)
    full = f"scores t·i·j have rank 1, weights rank {rank}, and their determinant is {det:.4f}"
    return fact(rank < n, f"rank {rank}", full)


def few_carry_most(lab: Lab, n: int, beta: float) -> Finding:
    """An eighth of the singular values has 90 % of the squares, for normal scores times β."""
    weights = weights_of(lab.normal(n, n) * beta)
    return at_most(
        "singular values for 90 %, normal scores times β:", rank_for(weights, 0.9), FEW * n
    )


def keys_of_k_numbers(lab: Lab, n: int, k: int, d: int) -> Finding:
    """The projected keys are vectors of k elements."""
    block = lab.block(Linformer, d, H, max_length=n, rows=k)
    keys = ops.matmul(block.mix_keys, block.key(lab.normal(n, d)))
    return equal(f"{keys.shape[0]} keys, elements of each:", keys.shape[1], k)


def much_faster(lab: Lab, n: int, k: int, d: int) -> Finding:
    """Linformer does at most half of the work."""
    x = lab.normal(1, n, d)
    fast, dense = (
        lab.block(Linformer, d, H, max_length=n, rows=k),
        lab.block(MultiHead, d, H, max_length=n),
    )
    return at_most("work over dense work", work_of(fast, x) / work_of(dense, x), 0.5)


# fmt: off
CLAIMS = [
    Claim(
        "S002-3.g.1", "19", FALSE,
        says="the matrix of attention weights has low rank",
        truth="scores i·j have rank 1, their softmax has full rank; for n orthonormal tokens n - 1 "
        "singular values are (e^β - 1)/(e^β + n - 1), near 1 if β - ln n ≫ 1",
        under_test=(ops.attention, singular_values, orthonormal_singular_value),
        corrected=full_rank,
        domain={"n": Whole(2, 5), "t": Real(0.3, 1.5), "beta": Real(0, 40)},
        literal=below_full_rank, witness={"n": 3, "t": 1.0},
    ),
    Claim(
        "S002-3.g.2", "19", CONDITIONAL,
        says="a few largest singular values make up most of the matrix",
        truth="rank k has an error of σ_(k+1), and |PV - P_k V| ≤ σ_(k+1) |V|; the rank needed "
        "depends on how sharp the weights are; 1 ≤ σ_1 ≤ √(largest column sum)",
        under_test=(truncated, singular_values, rank_for),
        corrected=nearest_of_low_rank,
        domain={"k": Whole(1, 8), "more": Whole(1, 8), "beta": Real(0, 60)},
        literal=few_carry_most, witness={"n": 64, "beta": 1.0},
    ),
    Claim(
        "S002-3.g.3", "19", TYPO,
        says="the projection gives k-dimensional keys and values",
        truth="it gives k keys of d elements: it acts along positions, (k×n)(n×d) = k×d; so each "
        "key contains later positions, and the block cannot be causal",
        under_test=(Linformer, MultiHead, influence),
        corrected=few_keys_of_full_width, domain={"n": Whole(1, 8), "k": Whole(1, 8)},
        literal=keys_of_k_numbers, witness={"n": 6, "k": 3, "d": 4},
    ),
    Claim(
        "S002-3.g.4", "19", CONDITIONAL,
        says="k ≪ n gives a significant speed-up",
        truth="it needs 4nkd multiply-adds instead of 2n²d, fewer if and only if k < n/2; but both "
        "need 4nd² for the maps: the ratio is (2d + 2k)/(2d + n), small only if also n ≫ 2d",
        under_test=(Linformer, MultiHead, formula_value),
        corrected=cheaper_below_half, domain={"n": Whole(1, 40), "k": Whole(1, 30)},
        literal=much_faster, witness={"n": 128, "k": 8, "d": 1024},
    ),
]
