"""Chapter 7: laws of scores: their scale, and the matrices that they are made with.

The letters are those of sheet 003: a model of width J has K heads of width I, whose matrices are
W^Q[k, I, J] and W^K[k, I, J]. W̃[k, J, J] is one matrix instead of the two.
"""

# ruff: noqa: E741  (I, the width of a head, is a letter of the sheet)

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import MultiHead
from tinyattn.attention.penalties import focus
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Whole, by_hand
from tinyattn.theory.law import law
from tinyattn.theory.merged_matrices import head_weights, merged_matrix, merged_weights
from tinyattn.theory.temperature import score_scale
from tinyattn.theory.weights import weights_of

POSITIONS = 5
"""The length of the inputs."""


def mean_entropies(lab: Lab, I: int, factors: tuple[float, ...]) -> list[float]:
    """The mean entropy of 2000 queries and 128 keys of normal elements, for each factor."""
    scores = ops.matmul(lab.normal(2000, I), lab.normal(I, 128))
    return [focus(weights_of(scores * factor)).mean().item() for factor in factors]


# Their scale ---------------------------------------------------------------------------------


@law("13_temperature", MultiHead, score_scale, K=Whole(1, 3), I=Whole(1, 6))
def heads_divide_by_the_root_of_their_width(lab: Lab, K: int, I: int) -> Finding:
    """Heads of width I multiply their scores by 1/√I.

    With 128 keys and I = 64 the entropy of the weights is 4.37 nats (of at most 4.85), but 0.67
    with the scale 1 and 4.84 with 1/I.
    """
    block, x = lab.block(MultiHead, K * I, K, max_length=POSITIONS), lab.normal(1, POSITIONS, K * I)
    query, key = (m(x).numpy()[0].reshape(POSITIONS, K, I) for m in (block.query, block.key))
    scores = score_scale(I) * np.einsum("thd,shd->hts", query, key)
    sharp, scaled, flat = mean_entropies(lab, 64, (1.0, score_scale(64), 1 / 64))
    return every(
        equal("weights", block.weights(x)[0], by_hand(scores)),
        equal("entropy with the scale 1:", sharp, 0.67, 0.08),
        equal("with 1/√I:", scaled, 4.367, 0.05),
        equal("with 1/I:", flat, 4.844, 0.002),
    )


# Their matrices ------------------------------------------------------------------------------


@law("15_bilinear", merged_matrix, merged_weights, head_weights,
     K=Whole(1, 3), J=Whole(1, 6), I=Whole(1, 6))  # fmt: skip
def one_matrix_replaces_two(lab: Lab, K: int, J: int, I: int) -> Finding:
    """W̃[j_1, j_2] = (1/√I) Σ_i W^Q[i, j_1] W^K[i, j_2] gives the weights of W^Q and W^K.

    The score of t_2 for t_1 is L(t_1)ᵀ W̃ L(t_2), and the softmax is over t_2. The rank of W̃ is at
    most I; every matrix of such rank is a W̃; G W^Q with G⁻ᵀ W^K has the same W̃.
    """
    w_q, w_k, x = lab.normal(K, I, J), lab.normal(K, I, J), lab.normal(POSITIONS, J)
    q, k, merged, rank = w_q.numpy(), w_k.numpy(), merged_matrix(w_q, w_k), min(I, J)
    wanted = sum(q[:, i, :, None] * k[:, i, None, :] for i in range(I)) / math.sqrt(I)
    weights = by_hand([x.numpy() @ w @ x.numpy().T for w in wanted])
    left, right = (lab.orthonormal(I, 0).numpy() for _ in range(2))
    stretch = lab.rng.uniform(0.5, 2, I)
    g, inverse = left * stretch @ right, left / stretch @ right  # the second is G⁻ᵀ
    changed = (ops.matmul(lab.tensor(a), w) for a, w in ((g, w_q), (inverse, w_k)))
    any_one = lab.rng.standard_normal((J, rank)) @ lab.rng.standard_normal((rank, J))
    u, size, v = np.linalg.svd(any_one)
    root = np.sqrt(size[:rank] * math.sqrt(rank))
    factors = (lab.tensor((a * root).T[None]) for a in (u[:, :rank], v[:rank].T))
    return every(
        equal("W̃", merged, wanted),
        equal("weights from W^Q and W^K", head_weights(x, w_q, w_k), weights),
        equal("weights from W̃", merged_weights(x, merged), weights),
        equal("rank", np.linalg.matrix_rank(merged.numpy()), np.full(K, rank)),
        equal("W̃ from G W^Q and G⁻ᵀ W^K", merged_matrix(*changed), merged),
        equal("W̃ for a given matrix", merged_matrix(*factors)[0], any_one),
    )


@law("15_bilinear", head_weights, ops.matmul, K=Whole(1, 3), T=Whole(1, 6))
def plain_products_prefer_themselves(lab: Lab, K: int, T: int) -> Finding:
    """Scores x·z without matrices: all heads are equal, and the scores are symmetric.

    Two tokens cannot both prefer each other to themselves, as 2 x·z ≤ x·x + z·z.
    """
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
