"""Chapter 7: query and key matrices merged into one, in the notation of an answer sheet.

Sheet 003 calls the matrices of head k W^Q[k, I, J] and W^K[k, I, J]; J is the width of the model
(d_model), I that of a head. attention/bilinear.py merges whole blocks; this file has the equation
alone (derivations/15_bilinear.md).
"""

from __future__ import annotations

import math

from tinyattn import ops
from tinyattn.attention.core import attend
from tinyattn.tensor import Tensor


def merged_matrix(w_q: Tensor, w_k: Tensor) -> Tensor:
    """W̃, the product of W^Q and W^K.

    Forward: W̃[k, j_1, j_2] = (1/√I) Σ_i W^Q[k, i, j_1] W^K[k, i, j_2]
    Shapes:  (K, I, J), (K, I, J) -> (K, J, J)
    Raises:  ValueError unless both have that shape
    Source:  sheet 003, problem 5 (a)
    """
    _check_maps("merged_matrix", w_q, w_k)
    return ops.einsum("kij,kim -> kjm", w_q, w_k) * (1 / math.sqrt(w_q.shape[1]))


def head_weights(x: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    """The attention weights of every head, from queries and keys.

    Forward: α[k, t_1, t_2] = softmax over t_2 of (1/√I) Query[k, t_1, I] Key[k, t_2, I]
    Shapes:  x (T, J), matrices (K, I, J) -> (K, T, T)
    Raises:  ValueError unless they have these shapes
    Source:  sheet 003, problem 5
    """
    _check_maps("head_weights", w_q, w_k)
    _check_words("head_weights", x, w_q)
    query, key = (ops.einsum("kij,tj -> kti", w, x) for w in (w_q, w_k))
    return attend(query, key, key, scale=1 / math.sqrt(w_q.shape[1]))[1]


def merged_weights(x: Tensor, merged: Tensor) -> Tensor:
    """The same attention weights, from the merged matrix.

    Forward: α[k, t_1, t_2] = softmax over t_2 of L[t_1, J_1] W̃[k, J_1, J_2] L[t_2, J_2]
    Shapes:  x L (T, J), merged W̃ (K, J, J) -> (K, T, T)
    Raises:  ValueError unless they have these shapes
    Source:  sheet 003, problem 5 (a), with t_2 as the second position
    """
    if merged.ndim != 3 or merged.shape[1] != merged.shape[2]:
        raise ValueError(f"merged_weights: merged must be (K, J, J); got {merged.shape}")
    _check_words("merged_weights", x, merged)
    return attend(ops.einsum("tj,kjm -> ktm", x, merged), x, x)[1]


def effective_parameters(width: int, head_width: int) -> int:
    """The number of degrees of freedom of W̃; W^Q and W^K of one head have 2IJ parameters.

    Forward: I (2J - I) for I = head_width up to J = width, and J² above: the dimension of the
             matrices of rank I. The other I² are changes W^Q -> G W^Q, W^K -> G⁻ᵀ W^K
    Raises:  ValueError for a width below 1
    Source:  derivations/15_bilinear.md
    """
    if width < 1 or head_width < 1:
        raise ValueError("effective_parameters: width and head_width must be at least 1; "
                         f"got {width} and {head_width}")  # fmt: skip
    rank = min(width, head_width)
    return rank * (2 * width - rank)


def _check_maps(where: str, w_q: Tensor, w_k: Tensor) -> None:
    """Raises: ValueError unless both are (K, I, J)."""
    if w_q.ndim != 3 or w_q.shape != w_k.shape:
        raise ValueError(f"{where}: w_q and w_k must both be (K, I, J); "
                         f"got {w_q.shape} and {w_k.shape}")  # fmt: skip


def _check_words(where: str, x: Tensor, matrices: Tensor) -> None:
    """Raises: ValueError unless x is (T, J), with the J of the matrices."""
    if x.ndim != 2 or x.shape[1] != matrices.shape[-1]:
        raise ValueError(f"{where}: x must be (T, {matrices.shape[-1]}); got {x.shape}")
