"""Chapter 7: projections, which recover a value from a sum.

If v_a is in one subspace and v_b in another that is orthogonal to it, the projection A Aᵀ recovers
v_a from v_a + v_b. The matrix Aᵀ alone gives coordinates of v_a, not v_a
(derivations/09_extraction.md).
"""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.tensor import Tensor


def projector(basis: Tensor) -> Tensor:
    """The orthogonal projection onto the span of an orthonormal basis.

    Forward: P = A Aᵀ, A with the basis vectors as columns
    Shapes:  basis (D, M) -> (D, D)
    Raises:  ValueError for another shape
    Source:  answer sheet 001, question 1 (b) i
    """
    if basis.ndim != 2:
        raise ValueError(f"projector: basis must be (D, M), a column each; got {basis.shape}")
    return ops.matmul(basis, basis.swapaxes(-1, -2))


def coordinates(basis: Tensor, vector: Tensor) -> Tensor:
    """A vector's coordinates in an orthonormal basis.

    Forward: c = Aᵀ s
    Shapes:  basis (D, M), vector (D,) -> (M,)
    Raises:  ValueError for other shapes
    Source:  derivations/09_extraction.md; sheet 004 has Aᵀ
    """
    if basis.ndim != 2 or vector.shape != basis.shape[:1]:
        raise ValueError("coordinates: basis and vector must be (D, M) and (D,); "
                         f"got {basis.shape} and {vector.shape}")  # fmt: skip
    return ops.matmul(basis.swapaxes(-1, -2), vector)


def oblique_projector(basis: Tensor, other: Tensor) -> Tensor:
    """The projection for any basis, and an `other` subspace that need not be orthogonal to it.

    It maps vectors in the span of `basis` to themselves and those in the span of `other` to zero.
    If `other` has no columns, it is the orthogonal projection of any basis, A (AᵀA)⁻¹ Aᵀ.

    Forward: P = [A 0] [A B]⁺
    Shapes:  basis A (D, M), other B (D, N) -> (D, D)
    Raises:  ValueError if the columns of both together are linearly dependent or differ in size
    Source:  derivations/09_extraction.md
    """
    a, b = basis.numpy(), other.numpy()
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise ValueError("oblique_projector: basis and other must be (D, M) and (D, N); "
                         f"got {a.shape} and {b.shape}")  # fmt: skip
    both = np.concatenate([a, b], axis=1)
    rank, columns = np.linalg.matrix_rank(both), both.shape[1]
    if rank < columns:
        raise ValueError("oblique_projector: the columns of basis and other must be independent; "
                         f"got {columns} of rank {rank}")  # fmt: skip
    kept = np.concatenate([a, np.zeros_like(b)], axis=1)
    return Tensor(asarray(kept @ np.linalg.pinv(both), device=basis.device))
