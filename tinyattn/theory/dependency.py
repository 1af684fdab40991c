"""Chapter 7: a dependency tree as attention weights.

In a dependency tree each word depends on another, its governor (called head in grammar), by a
relation: `flight` on `prefer` by `obj`. With an attention head for each relation, a tree determines
what each attention head should attend to (answer sheet 003). For a given tree this file builds a
bilinear block with these weights, and recovers the tree from them
(derivations/21_dependency_heads.md). The weights of a query must sum to 1: if a word has no
dependent by a relation, it attends to the root, at position 0, which depends on no word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyattn.attention.bilinear import Bilinear
from tinyattn.tensor import Tensor


def dependency_scores(
    governors: Sequence[int], relations: Sequence[int], heads: int, sharpness: float
) -> np.ndarray:
    """The score matrix of every head: β where query t should attend to key s, 0 elsewhere.

    Forward: W_k[t, s] = β if t governs s by relation k; W_k[t, 0] = β if t governs no word by k
    Shapes:  governors, relations (n,), governor 0 is the root, relations 0..H-1
             -> (H, N, N), N = n + 1
    Units:   nats
    Raises:  ValueError for a governor or a relation out of range
    """
    n = len(governors)
    if len(relations) != n or n == 0:
        raise ValueError(
            f"dependency_scores: needs as many relations as words; got {len(relations)} and {n}"
        )
    if not (0 <= min(governors) and max(governors) <= n):
        raise ValueError(f"dependency_scores: governors must lie in 0..{n}; got {[*governors]}")
    if not (0 <= min(relations) and max(relations) < heads):
        raise ValueError(
            f"dependency_scores: relations must lie in 0..{heads - 1}; got {[*relations]}"
        )
    w_HNN = np.zeros((heads, n + 1, n + 1))
    w_HNN[list(relations), list(governors), np.arange(1, n + 1)] = sharpness
    w_HNN[..., 0] = sharpness * ~w_HNN.any(axis=2)
    return w_HNN


def dependency_block(
    governors: Sequence[int], relations: Sequence[int], heads: int, *, sharpness: float = 30.0
) -> tuple[Bilinear, Tensor]:
    """A block with a head for each relation, whose weights are the tree's arcs, and its input.

    Forward: each position is a row of the identity, so its scores are those of `dependency_scores`,
             and α(k, governor, dependent) = 1/m if the governor has m dependents by relation k;
             all weights to within n·exp(-β)
    Shapes:  governors, relations (n,) -> a block of H heads and width C, x (1, n + 1, C), where C
             is the least multiple of H that is not below n + 1
    Units:   sharpness β in nats
    Raises:  ValueError for a governor or a relation out of range
    Source:  sheet 003, problem 1 (a). Differs: a query without a dependent attends to the root
    """
    w_HNN = dependency_scores(governors, relations, heads, sharpness)
    N = w_HNN.shape[1]
    C = heads * -(-N // heads)
    block = Bilinear(C, heads, max_length=N, rng=np.random.default_rng(0))
    w_CHC = np.zeros((C, heads, C), np.float32)
    w_CHC[:N, :, :N] = w_HNN.transpose(1, 0, 2) / block.scale
    block.query.weight = block.query.weight.like(w_CHC.reshape(C, heads * C))
    return block, Tensor(np.eye(N, C, dtype=np.float32)[None])


def read_arcs(weights_HNN: np.ndarray) -> tuple[list[int], list[int]]:
    """The tree in the weights: for each word, the governor and relation of its largest weight.

    Forward: relation and governor of word d are the k and g of the largest α(k, g, d)
    Shapes:  weights (H, N, N) on the host -> governors and relations, each (N - 1,)

    It returns the tree of `dependency_block` if exp(β) ≥ n + 1: then the weight of an arc is
    above exp(-β), and no other weight on a word exceeds exp(-β).
    """
    H, N, _ = weights_HNN.shape
    best = weights_HNN[:, :, 1:].reshape(H * N, N - 1).argmax(axis=0)
    relations, governors = np.divmod(best, N)
    return governors.tolist(), relations.tolist()
