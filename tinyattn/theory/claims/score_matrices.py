"""Chapter 7: answer sheet 003, problems 3 and 5: bilinear scores, and merged matrices."""

# ruff: noqa: E741  (I, the width of a head, is a letter of the sheet)

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Domain, Lab, Whole, by_hand
from tinyattn.theory.merged_matrices import head_weights, merged_matrix, merged_weights

Rows = tuple[tuple[float, ...], ...]
"""A matrix, as a tuple of rows."""

POSITIONS = 5


# What is true --------------------------------------------------------------------------------


def absorbed(lab: Lab, J: int, labels: int) -> Finding:
    """h·W e(y) = (Wᵀh)·e(y): a model that can learn h can also learn Wᵀh."""
    h, w, e = lab.normal(1, J), lab.normal(J, J), lab.normal(labels, J)
    wanted = by_hand(h.numpy() @ w.numpy() @ e.numpy().T)
    return every(
        equal("P(y|h)", ops.softmax(ops.einsum("tj,jm,ym -> ty", h, w, e)), wanted),
        equal("from Wᵀh", ops.softmax(ops.matmul(ops.matmul(h, w), e.T)), wanted),
        equal("from W e(y)", ops.softmax(ops.matmul(h, ops.matmul(e, w.T).T)), wanted),
    )


def same_attention(lab: Lab, K: int, J: int, I: int) -> Finding:
    """The merged matrix gives the same weights as queries and keys."""
    w_q, w_k = lab.normal(K, I, J), lab.normal(K, I, J)
    x, merged = lab.normal(POSITIONS, J), merged_matrix(w_q, w_k)
    q, k = w_q.numpy(), w_k.numpy()
    wanted = sum(q[:, i, :, None] * k[:, i, None, :] for i in range(I)) / math.sqrt(I)
    weights = by_hand([x.numpy() @ w @ x.numpy().T for w in wanted])
    return every(
        equal("W̃", merged, wanted),
        equal("weights from W^Q and W^K", head_weights(x, w_q, w_k), weights),
        equal("weights from W̃", merged_weights(x, merged), weights),
    )


def low_rank_and_free(lab: Lab, K: int, J: int, I: int) -> Finding:
    """W̃ has rank ≤ I; each matrix of such rank is a W̃; G W^Q and G⁻ᵀ W^K have the same W̃."""
    w_q, w_k = lab.normal(K, I, J), lab.normal(K, I, J)
    merged, rank = merged_matrix(w_q, w_k), min(I, J)
    left, right = (lab.orthonormal(I, 0).numpy() for _ in range(2))
    stretch = lab.rng.uniform(0.5, 2, I)
    g, inverse = left * stretch @ right, left / stretch @ right  # the second is G⁻ᵀ
    changed = (ops.matmul(lab.tensor(a), w) for a, w in ((g, w_q), (inverse, w_k)))
    any_one = lab.rng.standard_normal((J, rank)) @ lab.rng.standard_normal((rank, J))
    u, size, v = np.linalg.svd(any_one)
    root = np.sqrt(size[:rank] * math.sqrt(rank))
    made = (lab.tensor((a * root).T[None]) for a in (u[:, :rank], v[:rank].T))
    return every(
        equal("rank", np.linalg.matrix_rank(merged.numpy()), np.full(K, rank)),
        equal("W̃ from G W^Q and G⁻ᵀ W^K", merged_matrix(*changed), merged),
        equal("W̃ for a given matrix", merged_matrix(*made)[0], any_one),
        same_attention(lab, K, J, I),
    )


def prefers_itself(lab: Lab, K: int, T: int) -> Finding:
    """Plain dot products: all heads are equal; two tokens cannot both prefer each other."""
    x, same = lab.normal(T, 3), lab.tensor(np.tile(np.eye(3), (K, 1, 1)))
    scores = ops.matmul(x, x.T).numpy()
    own = np.diag(scores)
    both = np.minimum(scores - own[:, None], scores - own)  # above 0 if each prefers the other
    weights = np.tile(by_hand(scores / math.sqrt(3)), (K, 1, 1))
    return every(
        equal("weights of every head", head_weights(x, same, same), weights),
        equal("scores", scores, scores.T),
        at_least("smallest eigenvalue of the scores", np.linalg.eigvalsh(scores).min(), 0),
        at_most("excess over own scores, for both tokens:", both.max(), 0),
    )


# What the sheets say -------------------------------------------------------------------------


def is_equation_2(lab: Lab, tokens: Rows, query: Rows, key: Rows) -> Finding:
    """The transformer's attention is equation (2), a plain dot product."""
    x = lab.tensor(tokens)
    weights = head_weights(x, lab.tensor(query)[None], lab.tensor(key)[None])[0, 0]
    return equal("weights of token 1", weights, ops.softmax(ops.matmul(x, x.T))[0])


def first_token_twice(lab: Lab, tokens: Rows, query: Rows, key: Rows) -> Finding:
    """Both factors of W̃ are L(t_1), as printed."""
    x, w_q, w_k = lab.tensor(tokens), lab.tensor(query)[None], lab.tensor(key)[None]
    scores = ops.einsum("tj,kjm,tm -> kt", x, merged_matrix(w_q, w_k), x)[0, 0]
    printed = ops.softmax(scores.broadcast_to((len(tokens),)))
    return equal("weights of token 1 as printed", printed, head_weights(x, w_q, w_k)[0, 0])


def sum_ends_early(lab: Lab, query: tuple[float, ...], key: tuple[float, ...]) -> Finding:
    """(Σ_i W^Q[i]) W^K[i], as the parentheses say: for J = 1, one number for each i."""
    w_q, w_k = (lab.tensor(w).reshape(1, -1, 1) for w in (query, key))
    printed = w_q.sum() * w_k.reshape(-1) * (1 / math.sqrt(len(query)))
    right = merged_matrix(w_q, w_k).item()
    return equal("W̃ as printed", printed, np.full(len(query), right))


# fmt: off
SHEET: Domain = {"K": Whole(1, 3), "J": Whole(1, 6), "I": Whole(1, 6)}
UNITS = ((1.0, 0.0), (0.0, 1.0))
TWICE = ((2.0, 0.0), (0.0, 2.0))

CLAIMS = [
    Claim(
        "S003-3.1", "67", TRUE, of_question=True,
        says="a matrix between h and e(y) adds no capacity if h and e(y) are learned",
        truth="this is right: h·W e = (Wᵀh)·e; whether it helps in practice is no theorem",
        under_test=(ops.einsum, ops.softmax),
        corrected=absorbed, domain={"J": Whole(1, 6), "labels": Whole(1, 8)},
    ),
    Claim(
        "S003-3.2", "69-75", TYPO, of_question=True,
        says="the transformer's attention is equation (3), and further down it is (2)",
        truth="it is neither: (2) is a plain dot product, and (3) has one matrix; each head has "
        "the form of (3), with W^QK/√I",
        under_test=(head_weights, merged_weights, merged_matrix),
        corrected=same_attention, domain=SHEET,
        literal=is_equation_2,
        witness={"tokens": UNITS, "query": ((0.0, 1.0), (1.0, 0.0)), "key": UNITS},
    ),
    Claim(
        "S003-3.3", "73", TRUE,
        says="a plain dot product of L[t_1] and L[t_2] cannot depend on the head",
        truth="this is right; all heads are equal, scores are symmetric, and two tokens cannot "
        "both prefer each other to themselves, as 2 x·z ≤ x·x + z·z",
        under_test=(head_weights, ops.matmul),
        corrected=prefers_itself, domain={"K": Whole(1, 3), "T": Whole(1, 6)},
    ),
    Claim(
        "S003-3.4", "79-80", TRUE,
        says="W^QK[k] = Σ_i W^Q[k, i] W^K[k, i] replaces both matrices",
        truth="this is right: the weights are the same; the rank is at most I, every matrix of "
        "such rank is possible, and G W^Q with G⁻ᵀ W^K gives the same W^QK",
        under_test=(merged_matrix, merged_weights, head_weights),
        corrected=low_rank_and_free, domain=SHEET,
    ),
    Claim(
        "S003-5.2", "98, 104", TRUE,
        says="W̃[k, j_1, j_2] = (1/√I) Σ_i W^Q[k, i, j_1] W^K[k, i, j_2]",
        truth="this is right: with t_2 as the second position the weights are the same",
        under_test=(merged_matrix, merged_weights, head_weights),
        corrected=same_attention, domain=SHEET,
    ),
    Claim(
        "S003-5.3", "104", TYPO,
        says="the second factor is L(t_1, J_2), in all five lines",
        truth="the second factor is L(t_2, J_2)",
        under_test=(merged_weights, head_weights, merged_matrix),
        corrected=same_attention, domain=SHEET,
        literal=first_token_twice, witness={"tokens": UNITS, "query": TWICE, "key": TWICE},
    ),
    Claim(
        "S003-5.4", "104", TYPO,
        says="W̃ is (1/√I Σ_i W^Q[k, i, j_1]) (W^K[k, i, j_2]); the softmax is over no index",
        truth="W̃ is one sum over i of the products; the softmax is over t_2",
        under_test=(merged_matrix, merged_weights, head_weights),
        corrected=same_attention, domain=SHEET,
        literal=sum_ends_early, witness={"query": (1.0, 2.0), "key": (3.0, 4.0)},
    ),
]
