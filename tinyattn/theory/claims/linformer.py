"""Chapter 7: question 2 (g), continued: Linformer, and whether attention is of low rank."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import AttentionBlock, Linformer, MultiHead, influence
from tinyattn.attention.core import attend
from tinyattn.nn import Parameter
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.claims.family import C, D, H, new, work_of
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
"""The share of all singular values that may be called a few."""


def weights_of_rank_one(lab: Lab, n: int, t: float) -> np.ndarray:
    """Scores t·i·j of rank 1, through a softmax."""
    i = np.arange(n)
    return weights_of(lab.tensor(t * np.outer(i, i))).numpy()


def refuses_to_be_causal(block: AttentionBlock, x: Tensor) -> bool:
    """Whether it says that it cannot."""
    try:
        block(x, causal=True)
    except ValueError as error:
        return "causal" in str(error)
    return False


# What is true --------------------------------------------------------------------------------


def full_rank(lab: Lab, n: int, t: float, beta: float) -> Finding:
    """Scores t·i·j: det = Π (e^tk - e^ti)/Π Σ e^tij. Orthonormal tokens: all σ but one equal."""
    weights = weights_of_rank_one(lab, n, t)
    i = np.arange(n)
    pairs = [math.exp(t * b) - math.exp(t * a) for b in range(n) for a in range(b)]
    det = math.prod(pairs) / np.exp(t * np.outer(i, i)).sum(axis=1).prod()
    tokens = lab.orthonormal(n)
    sigma = singular_values(attend(tokens, tokens, tokens, scale=beta)[1])
    wanted = orthonormal_singular_value(n, beta)
    return every(
        equal("rank", np.linalg.matrix_rank(weights), n),
        equal("determinant over Vandermonde's", np.linalg.det(weights) / det, 1.0, 1e-5),
        equal("σ_1", sigma[0], 1.0),
        equal("σ_2 to σ_n", sigma[1:], np.full(n - 1, wanted)),
        equal("σ", wanted, math.expm1(beta) / (math.exp(beta) + n - 1)),
    )


def nearest_of_low_rank(lab: Lab, k: int, more: int, beta: float) -> Finding:
    """The error is the next singular value, no other matrix is nearer, and 1 ≤ σ_1."""
    n = k + more
    weights = weights_of(lab.normal(n, n) * beta)
    p, sigma, v = weights.numpy(), singular_values(weights), lab.normal(n, 3)
    near, other = truncated(weights, k), ops.matmul(lab.normal(n, k), lab.normal(k, n))
    energy = np.linalg.eigvalsh(p.T @ p)[::-1]
    most = rank_for(weights, 0.9)
    missed = np.linalg.norm(ops.matmul(weights - near, v).numpy())
    return every(
        equal("σ²", sigma**2, energy),
        equal("error", np.linalg.norm(p - near.numpy(), 2), sigma[k]),
        at_least("error of another", np.linalg.norm(p - other.numpy(), 2), sigma[k]),
        at_most("error of P V", missed, sigma[k] * np.linalg.norm(v.numpy())),
        at_least("σ_1", sigma[0], 1.0),
        at_most("σ_1", sigma[0], math.sqrt(p.sum(axis=0).max())),
        at_least("share of the first few", energy[:most].sum() / energy.sum(), 0.9),
        at_most("with one less", energy[: most - 1].sum() / energy.sum(), 0.9),
    )


def few_keys_of_full_width(lab: Lab, n: int, k: int) -> Finding:
    """k mixed keys of D numbers, in each of which is every position; permuted, they are all n."""
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
        equal("keys", keys.shape, (1, H, k, D)),
        equal("weights", block.weights(x), weights),
        equal("E and F a permutation", whole(x), dense(x)),
        fact(influence(block, n, False).all(), "every token reaches all", "a token is not seen"),
        fact(refuses_to_be_causal(block, x), "it cannot be causal", "it can be causal"),
    )


def cheaper_below_half(lab: Lab, n: int, k: int) -> Finding:
    """Counted: cheaper if and only if k < n/2, by (2d + 2k)/(2d + n), the four maps included."""
    x = lab.normal(1, n, C)
    work, dense = work_of(new(lab, Linformer, n, rows=k), x), work_of(new(lab, MultiHead, n), x)
    formula = formula_value(Linformer.multiply_adds, {"T": n, "C": C, "R": k})
    return every(
        equal("the block's formula", float(formula), work),
        equal("share of dense work", work / dense, (2 * C + 2 * k) / (2 * C + n)),
        fact((work < dense) == (2 * k < n), "cheaper below n/2", "the border is not n/2"),
    )


# What the sheets say -------------------------------------------------------------------------


def below_full_rank(lab: Lab, n: int, t: float) -> Finding:
    """The rank is below n."""
    weights = weights_of_rank_one(lab, n, t)
    rank, det = np.linalg.matrix_rank(weights), np.linalg.det(weights)
    told = f"scores t·i·j have rank 1, weights rank {rank}, and their determinant is {det:.4f}"
    return fact(rank < n, f"rank {rank}", told)


def few_carry_most(lab: Lab, n: int, beta: float) -> Finding:
    """An eighth of the singular values has 90 % of the squares; scores are β times normal ones."""
    weights = weights_of(lab.normal(n, n) * beta)
    return at_most(
        "singular values for 90 %, of scores β times normal,", rank_for(weights, 0.9), FEW * n
    )


def keys_of_k_numbers(lab: Lab, n: int, k: int, d: int) -> Finding:
    """The projected keys are vectors of k numbers."""
    block = lab.block(Linformer, d, H, longest=n, rows=k)
    keys = ops.matmul(block.mix_keys, block.key(lab.normal(n, d)))
    return equal(f"{keys.shape[0]} keys, numbers in each", keys.shape[1], k)


def much_faster(lab: Lab, n: int, k: int, d: int) -> Finding:
    """Half the work at most."""
    x = lab.normal(1, n, d)
    fast, dense = (
        lab.block(Linformer, d, H, longest=n, rows=k),
        lab.block(MultiHead, d, H, longest=n),
    )
    return at_most("share of dense work", work_of(fast, x) / work_of(dense, x), 0.5)


# fmt: off
CLAIMS = [
    Claim(
        "S002-3.g.1", "19", FALSE,
        says="the matrix of attention weights has low rank",
        truth="scores i·j of rank 1 have a softmax of full rank; n orthonormal tokens give n - 1 "
        "equal singular values, (e^β - 1)/(e^β + n - 1), near 1 if β - ln n ≫ 1",
        under_test=(ops.attention, singular_values, orthonormal_singular_value),
        corrected=full_rank,
        domain={"n": Whole(2, 5), "t": Real(0.3, 1.5), "beta": Real(0, 40)},
        literal=below_full_rank, witness={"n": 3, "t": 1.0},
    ),
    Claim(
        "S002-3.g.2", "19", CONDITIONAL,
        says="a few largest singular values carry most of it",
        truth="rank k leaves an error of σ_(k+1), and |PV - P_k V| ≤ σ_(k+1) |V|; how many are "
        "needed depends on how sharp the weights are; 1 ≤ σ_1 ≤ √(largest column sum)",
        under_test=(truncated, singular_values, rank_for),
        corrected=nearest_of_low_rank,
        domain={"k": Whole(1, 8), "more": Whole(1, 8), "beta": Real(0, 60)},
        literal=few_carry_most, witness={"n": 64, "beta": 1.0},
    ),
    Claim(
        "S002-3.g.3", "19", TYPO,
        says="the projection gives k-dimensional keys and values",
        truth="it gives k keys of d numbers: it acts along the text, (k×n)(n×d) = k×d; so each key "
        "has the future in it, and the block cannot be causal",
        under_test=(Linformer, MultiHead, influence),
        corrected=few_keys_of_full_width, domain={"n": Whole(1, 8), "k": Whole(1, 8)},
        literal=keys_of_k_numbers, witness={"n": 6, "k": 3, "d": 4},
    ),
    Claim(
        "S002-3.g.4", "19", CONDITIONAL,
        says="k ≪ n gives a significant speed-up",
        truth="4nkd multiply-adds against 2n²d: less if and only if k < n/2; but both pay 4nd² for "
        "the maps, so the share of the work is (2d + 2k)/(2d + n), small only if n ≫ 2d too",
        under_test=(Linformer, MultiHead, formula_value),
        corrected=cheaper_below_half, domain={"n": Whole(1, 40), "k": Whole(1, 30)},
        literal=much_faster, witness={"n": 128, "k": 8, "d": 1024},
    ),
]
