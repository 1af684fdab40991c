"""Chapter 7: answer sheet 003, problem 5: merged blocks, their biases, ranks and sizes."""

# ruff: noqa: E741  (I, the width of a head, is a letter of the sheet)

from __future__ import annotations

import math

import numpy as np

from tinyattn.attention import Bilinear, MultiHead, factor, merge
from tinyattn.attention.bilinear import score_parameters
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.finding import Finding, equal, every, fact
from tinyattn.theory.lab import Lab, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.scores import POSITIONS
from tinyattn.theory.merged_matrices import effective_parameters, head_weights, merged_matrix


def multi_head(lab: Lab, K: int, I: int, bias: float = 1.0) -> tuple[MultiHead, Tensor]:
    """A block of K heads of width I, so that J = KI, and an input."""
    block = lab.block(MultiHead, K * I, K, max_length=POSITIONS, bias=bias)
    return block, lab.normal(1, POSITIONS, K * I)


def in_letters(lab: Lab, block: MultiHead) -> tuple[Tensor, Tensor]:
    """W^Q and W^K of a block as [K, I, J]."""
    J, K = block.width, block.heads
    maps = (linear.weight.numpy().reshape(J, K, J // K) for linear in (block.query, block.key))
    query, key = (lab.tensor(w.transpose(1, 2, 0)) for w in maps)
    return query, key


@check(MultiHead, head_weights, merge, factor, score_parameters, K=Whole(1, 4), I=Whole(1, 4))
def one_layer_in_three_forms(lab: Lab, K: int, I: int) -> Finding:
    """A block, its merged form and its split form have the same weights.

    W^Q and W^K are [K, I, J] with J = KI, so I < J if K > 1. A layer has 2KIJ parameters in two
    matrices, or K J² merged; these are equal if and only if K = 2.
    """
    block, x = multi_head(lab, K, I, bias=0.0)
    w_q, w_k = in_letters(lab, block)
    J, merged, weights = block.width, merge(block), block.weights(x)[0]
    two, one = block.query.weight.size + block.key.weight.size, merged.query.weight.size
    return every(
        equal("shape", w_q.shape, (K, I, J)),
        fact((I < J) == (K > 1), f"I = {I}, J = {J}", f"I = {I} for J = {J}"),
        equal("W_h/√J", merged.matrices() / math.sqrt(J), merged_matrix(w_q, w_k)),
        equal("weights", head_weights(x[0], w_q, w_k), weights),
        equal("weights, merged,", merged.weights(x)[0], weights),
        equal("weights, split again,", factor(merged).weights(x)[0], weights),
        equal("parameters of W^Q and W^K", two, 2 * K * I * J),
        equal("parameters of W̃", one, K * J * J),
        equal("K times those of a head", [K * size for size in score_parameters(J, I)], [two, one]),
        fact((one == two) == (K == 2), "equal if and only if K = 2", f"{two} and {one}, K = {K}"),
    )


@check(merge, factor, MultiHead, Bilinear, K=Whole(1, 4), I=Whole(1, 4))
def one_matrix_says_more(lab: Lab, K: int, I: int) -> Finding:
    """If I < J, a matrix may have a rank above I; two matrices miss all but I singular values.

    A query bias becomes u; a key bias does not change the weights, and its gradient is 0.
    """
    block, x = multi_head(lab, K, I)
    assert block.key.bias is not None
    weights = block.weights(x)
    merged = merge(block).weights(x)
    block(x).backward(lab.normal(*x.shape).data)
    gradient = asnumpy(block.key.bias.grad)
    block.key.bias.data = 0 * gradient
    full = lab.block(Bilinear, K * I, K, max_length=POSITIONS, bias=0.0)
    w = full.matrices()
    missed = np.square(w - merge(factor(full)).matrices()).sum(axis=(1, 2))
    left_out = np.square(np.linalg.svd(w, compute_uv=False)[:, I:]).sum(axis=1)
    return every(
        equal("weights, merged with u,", merged, weights),
        equal("weights without the key bias", block.weights(x), weights),
        equal("gradient of the key bias", gradient, 0 * gradient),
        equal("square error of two matrices", missed, left_out),
        fact((missed > 1e-20).all() == (K > 1), "above 0 if and only if I < J", "0 though I < J"),
    )


@check(score_parameters, effective_parameters, merged_matrix, J=Whole(1, 7), I=Whole(1, 7))
def numbers_of_a_head(lab: Lab, J: int, I: int) -> Finding:
    """2IJ or J² parameters of a head; the 2IJ have I(2J - I) degrees of freedom, for I ≤ J."""
    w_q, w_k = lab.normal(I, J), lab.normal(I, J)
    pair, single = score_parameters(J, I)
    units = lab.tensor(np.eye(I * J).reshape(-1, I, J))  # each changes one parameter
    moves = [
        merged_matrix(units, w_k.broadcast_to(units.shape)).numpy(),
        merged_matrix(w_q.broadcast_to(units.shape), units).numpy(),
    ]
    effective = np.linalg.matrix_rank(np.concatenate(moves).reshape(-1, J * J))
    return every(
        equal("parameters of W^Q and W^K", pair, w_q.size + w_k.size),
        equal("parameters of W̃", single, merged_matrix(w_q[None], w_k[None]).size),
        fact((single > pair) == (2 * I < J), "J² > 2IJ iff I < J/2", "not J² > 2IJ iff I < J/2"),
        equal("degrees of freedom", effective_parameters(J, I), effective),
        equal("by the formula", effective, min(I, J) * (2 * J - min(I, J))),
        fact((effective < single) == (I < J), "below J² iff I < J", "not below J² iff I < J"),
        equal("GPT-3: J²/2IJ", np.divide(*score_parameters(12288, 128)[::-1]), 48),
    )


# fmt: off
CLAIMS = [
    Claim(
        "S003-5.1", "94", TRUE, of_question=True,
        says="W^Q and W^K are [K, I, J], and typically I < J",
        truth="this is right: I = J/K is less than J if there is more than one head",
        check=one_layer_in_three_forms,
    ),
    Claim(
        "S003-5.5", "106", TRUE, of_question=True,
        says="one matrix instead of two represents the same attention",
        truth="if I < J it represents more: its rank can be J. The sheet has no biases. A key bias "
        "would have no effect (without rotary positions); a query bias adds u·z to the scores",
        check=one_matrix_says_more,
    ),
    Claim(
        "S003-5.6", "108", TRUE,
        says="a head has 2IJ parameters, or J² if merged; these are equal for I = J/2",
        truth="this is right; in GPT-3 J² is 48 times 2IJ; but the 2IJ have only I(2J - I) "
        "degrees of freedom, less than J² for every I < J",
        check=numbers_of_a_head,
    ),
    Claim(
        "S003-5.7", "106-108", TRUE,
        says="each head has 2IJ parameters, or J² if merged (the question asks for a layer's)",
        truth="this is right; a layer has 2KIJ, or K J² if merged; for KI = J these are equal "
        "if and only if K = 2",
        check=one_layer_in_three_forms,
    ),
]
