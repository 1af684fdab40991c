"""Chapter 7: a dependency tree, written as attention.

A parse draws an arc from each governor to its dependents, with a relation on it: `prefer` to
`flight`, with `obj`. Take a head for each relation; then a tree says where every head should look
(sheet 003). This file builds, for a tree that is given, a bilinear block whose heads look exactly
there, and reads the tree back from their weights (derivations/21_dependency_heads.md). A head must
look somewhere: a word with no dependent of a relation looks at the root, which stands at position
0 and is nobody's dependent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyattn.attention.bilinear import Bilinear
from tinyattn.tensor import Tensor


def dependency_scores(
    governors: Sequence[int], relations: Sequence[int], heads: int, sharpness: float
) -> np.ndarray:
    """The matrix of every head, between positions: β where the head should look, 0 elsewhere.

    Forward: W_k[t, s] = β if t governs s by relation k; W_k[t, 0] = β if t governs nobody by k
    Shapes:  governors, relations (n,), governor 0 is the root, relations 0..H-1
             -> (H, N, N), N = n + 1
    Units:   nats
    Raises:  ValueError for a governor or a relation that is not there
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
    """A block with a head for each relation that looks along a tree's arcs, and its input.

    Forward: each position is a row of the identity, so its scores are those of `dependency_scores`,
             and α(k, governor, dependent) = 1 if the governor has no other dependent by relation
             k, 1/m if it has m, which share; all weights to within n·exp(-β)
    Shapes:  governors, relations (n,) -> a block of H heads and width C, x (1, n + 1, C), where C
             is the least multiple of H that is not below n + 1
    Units:   sharpness β in nats
    Raises:  ValueError for a governor or a relation that is not there
    Source:  sheet 003, problem 1 (a). Differs: a head looks at the root if it finds nothing
    """
    w_HNN = dependency_scores(governors, relations, heads, sharpness)
    N = w_HNN.shape[1]
    C = heads * -(-N // heads)
    block = Bilinear(C, heads, longest=N, rng=np.random.default_rng(0))
    w_CHC = np.zeros((C, heads, C), np.float32)
    w_CHC[:N, :, :N] = w_HNN.transpose(1, 0, 2) / block.scale
    block.query.weight = block.query.weight.like(w_CHC.reshape(C, heads * C))
    return block, Tensor(np.eye(N, C, dtype=np.float32)[None])


def read_arcs(weights_HNN: np.ndarray) -> tuple[list[int], list[int]]:
    """The tree that weights show: for each word the governor and the relation that give it most.

    Forward: relation and governor of word d are the k and g of the largest α(k, g, d)
    Shapes:  weights (H, N, N) on the host -> governors and relations, each (N - 1,)

    It gives back the tree of `dependency_block` if exp(β) ≥ n + 1: the weight of an arc is then
    above exp(-β), which no other weight on a word exceeds.
    """
    H, N, _ = weights_HNN.shape
    best = weights_HNN[:, :, 1:].reshape(H * N, N - 1).argmax(axis=0)
    relations, governors = np.divmod(best, N)
    return governors.tolist(), relations.tolist()
