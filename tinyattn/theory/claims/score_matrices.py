"""Chapter 7: answer sheet 003, problems 3 and 5: bilinear scores, and merged matrices."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, equal, every
from tinyattn.theory.lab import Lab, Whole, by_hand
from tinyattn.theory.law import check
from tinyattn.theory.laws.scores import one_matrix_replaces_two, plain_products_prefer_themselves
from tinyattn.theory.merged_matrices import head_weights, merged_matrix

Rows = tuple[tuple[float, ...], ...]
"""A matrix, as a tuple of rows."""


@check(ops.einsum, ops.softmax, J=Whole(1, 6), labels=Whole(1, 8))
def absorbed(lab: Lab, J: int, labels: int) -> Finding:
    """h·W e(y) = (Wᵀh)·e(y): a model that can learn h can also learn Wᵀh."""
    h, w, e = lab.normal(1, J), lab.normal(J, J), lab.normal(labels, J)
    wanted = by_hand(h.numpy() @ w.numpy() @ e.numpy().T)
    return every(
        equal("P(y|h)", ops.softmax(ops.einsum("tj,jm,ym -> ty", h, w, e)), wanted),
        equal("from Wᵀh", ops.softmax(ops.matmul(ops.matmul(h, w), e.T)), wanted),
        equal("from W e(y)", ops.softmax(ops.matmul(h, ops.matmul(e, w.T).T)), wanted),
    )


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
UNITS = ((1.0, 0.0), (0.0, 1.0))
TWICE = ((2.0, 0.0), (0.0, 2.0))

CLAIMS = [
    Claim(
        "S003-3.1", "67", TRUE, of_question=True,
        says="a matrix between h and e(y) adds no capacity if h and e(y) are learned",
        truth="this is right: h·W e = (Wᵀh)·e; whether it helps in practice is no theorem",
        check=absorbed,
    ),
    Claim(
        "S003-3.2", "69-75", TYPO, of_question=True,
        says="the transformer's attention is equation (3), and further down it is (2)",
        truth="it is neither: (2) is a plain dot product, and (3) has one matrix; each head has "
        "the form of (3), with W^QK/√I",
        check=one_matrix_replaces_two,
        literal=is_equation_2,
        witness={"tokens": UNITS, "query": ((0.0, 1.0), (1.0, 0.0)), "key": UNITS},
    ),
    Claim(
        "S003-3.3", "73", TRUE,
        says="a plain dot product of L[t_1] and L[t_2] cannot depend on the head",
        check=plain_products_prefer_themselves,
    ),
    Claim(
        "S003-3.4", "79-80", TRUE,
        says="W^QK[k] = Σ_i W^Q[k, i] W^K[k, i] replaces both matrices",
        check=one_matrix_replaces_two,
    ),
    Claim(
        "S003-5.2", "98, 104", TRUE,
        says="W̃[k, j_1, j_2] = (1/√I) Σ_i W^Q[k, i, j_1] W^K[k, i, j_2]",
        truth="this is right: with t_2 as the second position the weights are the same",
        check=one_matrix_replaces_two,
    ),
    Claim(
        "S003-5.3", "104", TYPO,
        says="the second factor is L(t_1, J_2), in all five lines",
        truth="the second factor is L(t_2, J_2)",
        check=one_matrix_replaces_two,
        literal=first_token_twice, witness={"tokens": UNITS, "query": TWICE, "key": TWICE},
    ),
    Claim(
        "S003-5.4", "104", TYPO,
        says="W̃ is (1/√I Σ_i W^Q[k, i, j_1]) (W^K[k, i, j_2]); the softmax is over no index",
        truth="W̃ is one sum over i of the products; the softmax is over t_2",
        check=one_matrix_replaces_two,
        literal=sum_ends_early, witness={"query": (1.0, 2.0), "key": (3.0, 4.0)},
    ),
]
