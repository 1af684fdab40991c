"""Chapter 7: question 1 (b) i, projections: how a matrix recovers v_a from v_a + v_b."""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import check
from tinyattn.theory.queries import averaging_error, averaging_query
from tinyattn.theory.subspace import coordinates, oblique_projector, projector

INVERTED = 1e-8
"""Like EXACT, for results of the inverse of a matrix that may be nearly singular."""


def bases(lab: Lab, m: int, p: int) -> tuple[Tensor, Tensor]:
    """Orthonormal columns A (D, m) and B (D, p), orthogonal to each other."""
    both = lab.orthonormal(m + p).T
    return both[:, :m], both[:, m:]


@check(projector, averaging_query, averaging_error, ops.attention,
       m=Whole(1, 5), p=Whole(1, 5), beta=Real(-5, 60))  # fmt: skip
def half_of_it(lab: Lab, m: int, p: int, beta: float) -> Finding:
    """M = A Aᵀ: M s = v_a for s = v_a + v_b, so 2M c = v_a for the exact mean c = ½(v_a + v_b).

    If q = β(k_a + k_b) gives the other values the weight ε and r is their mean, the output c has
    2M c = v_a + ε(2M r - v_a).
    """
    A, B = bases(lab, m, p)
    v_a, v_b = ops.matmul(A, lab.normal(m)), ops.matmul(B, lab.normal(p))
    M, others, keys = projector(A), lab.normal(3, A.shape[0]), lab.orthonormal(5)
    values = ops.concatenate([ops.stack([v_a, v_b]), others])
    c = lab.attend(averaging_query(keys, [0, 1], beta), keys, values)[0]
    error = averaging_error(5, beta) * (2 * ops.matmul(M, others.mean(axis=0)) - v_a)
    return every(
        equal("M s", ops.matmul(M, v_a + v_b), v_a),
        equal("2 M (v_a + v_b)/2", 2 * ops.matmul(M, (v_a + v_b) / 2), v_a),
        equal("2 M c", 2 * ops.matmul(M, c), v_a + error),
    )


@check(projector, m=Whole(1, 5), p=Whole(1, 5))
def both_conditions(lab: Lab, m: int, p: int) -> Finding:
    """v_a = A x, v_b = B z: M s - v_a = (M A - A) x + M B z for any M.

    This is 0 for all x and z if and only if M A = A and M B = 0. For vectors that are orthogonal to
    both subspaces M is free.
    """
    A, B = bases(lab, m, p)
    x, z, D = lab.normal(m), lab.normal(p), A.shape[0]
    v_a, s = ops.matmul(A, x), ops.matmul(A, x) + ops.matmul(B, z)
    M = lab.normal(D, D)
    residue = ops.matmul(ops.matmul(M, A) - A, x) + ops.matmul(ops.matmul(M, B), z)
    outside = lab.tensor(np.eye(D)) - projector(A) - projector(B)
    another = projector(A) + ops.matmul(M, outside)
    return every(
        equal("M s - v_a", ops.matmul(M, s) - v_a, residue),
        equal("M s for another M", ops.matmul(another, s), v_a),
    )


@check(projector, coordinates, m=Whole(1, 5), p=Whole(1, 5))
def projector_extracts(lab: Lab, m: int, p: int) -> Finding:
    """M = A Aᵀ = Σ a_i a_iᵀ: M s = v_a for s = v_a + v_b = A x + B z, orthonormal columns, A ⟂ B.

    M is d × d and symmetric, M M = M, and its trace is m. Aᵀ B is an m × p block of zeros, M v_b a
    vector of d zeros. Aᵀ s are the m coordinates x of v_a, Bᵀ s the p coordinates z of v_b.
    """
    A, B = bases(lab, m, p)
    x, z, M = lab.normal(m), lab.normal(p), projector(A)
    v_a, v_b = ops.matmul(A, x), ops.matmul(B, z)
    found = coordinates(A, v_a + v_b), coordinates(B, v_a + v_b)
    return every(
        equal("M s", ops.matmul(M, v_a + v_b), v_a),
        equal("Σ a_i a_iᵀ", sum(np.outer(a, a) for a in A.T.numpy()), M),
        equal("number of axes of M", M.ndim, 2),
        equal("M M", ops.matmul(M, M), M),
        equal("Mᵀ", M.T, M),
        equal("trace of M", np.trace(M.numpy()), m),
        equal("Aᵀ B", ops.matmul(A.T, B), np.zeros((m, p))),
        equal("M v_b", ops.matmul(M, v_b), np.zeros(A.shape[0])),
        equal("Aᵀ s", found[0], x),
        equal("Bᵀ s", found[1], z),
        equal("numbers of coordinates of v_a and v_b", [c.shape[0] for c in found], (m, p)),
    )


@check(projector, oblique_projector, m=Whole(1, 5), p=Whole(1, 5), longest=Real(1, 10))
def any_basis_will_do(lab: Lab, m: int, p: int, longest: float) -> Finding:
    """A Aᵀ s = v_a for orthonormal columns and A ⟂ B, A(AᵀA)⁻¹Aᵀ s = v_a for any basis.

    For orthogonal a_i of any norms the matrix is Σ a_i a_iᵀ/(a_i·a_i). For two subspaces whose
    intersection is 0, [A 0][A B]⁺ s = v_a.
    """
    A, B = bases(lab, m, p)
    x, v_b, none = lab.normal(m), ops.matmul(B, lab.normal(p)), B[:, :0]
    long = A * lab.tensor(lab.rng.uniform(1 / longest, longest, m))
    of_any_norm = ops.matmul(long / (long**2).sum(axis=0), long.T)
    bent = ops.matmul(A, lab.tensor(np.eye(m) + np.tri(m, k=-1)))  # not orthogonal any more
    first, second = lab.normal(m + p + 4, m), lab.normal(m + p + 4, p)
    v_a, aslant = ops.matmul(first, x), ops.matmul(second, lab.normal(p))
    return every(
        equal("A Aᵀ s", ops.matmul(projector(A), ops.matmul(A, x) + v_b), ops.matmul(A, x)),
        equal("A(AᵀA)⁻¹Aᵀ", oblique_projector(bent, none), projector(A), INVERTED),
        equal("Σ a_i a_iᵀ/(a_i·a_i) s", ops.matmul(of_any_norm, ops.matmul(long, x) + v_b),
              ops.matmul(long, x)),
        equal("Σ a_i a_iᵀ/(a_i·a_i)", of_any_norm, oblique_projector(long, B), INVERTED),
        equal("[A 0][A B]⁺ s", ops.matmul(oblique_projector(first, second), v_a + aslant), v_a,
              INVERTED),
    )  # fmt: skip


def transpose_extracts(
    lab: Lab, basis: tuple[tuple[float, ...], ...], s: tuple[float, ...]
) -> Finding:
    """Aᵀ s is the part of s in the span of A."""
    A, sum_ = lab.tensor(np.transpose(basis)), lab.tensor(s)
    return equal("Aᵀ s", ops.matmul(A.T, sum_), ops.matmul(oblique_projector(A, A[:, :0]), sum_))


# fmt: off
CLAIMS = [
    Claim(
        "S001-b.i.1", "29-33", TRUE,
        says="c = ½(v_a + v_b) determines v_a: with s = v_a + v_b there is an M such that M s = "
        "v_a",
        truth="this is right: s = 2c, so 2M c = v_a; if other values have weight in c, their "
        "projection onto A is added",
        check=half_of_it,
    ),
    Claim(
        "S001-b.i.2", "39-45", TRUE,
        says="M s = v_a if M v_a = v_a and M v_b = 0",
        truth="true, and for all v_a and v_b only then; for vectors orthogonal to both M is free",
        check=both_conditions,
    ),
    Claim(
        "S001-b.i.3", "53, 61, 81", TYPO,
        says="Aᵀ B and M v_b are m × m blocks of zeros",
        truth="Aᵀ B is m × p, and M v_b is the zero vector of d elements",
        check=projector_extracts,
        literal=projector_extracts.gives("Aᵀ B", lambda m, p: np.zeros((m, m))),
        witness={"m": 2, "p": 3},
    ),
    Claim(
        "S001-b.i.4", "47-53, 79", TYPO,
        says="v_a and v_b have the same coordinates c",
        truth="v_a = A c and v_b = B d, where c has m elements and d has p, as B has p columns; "
        "the rest of the proof is right",
        check=projector_extracts,
        literal=projector_extracts.gives(
            "numbers of coordinates of v_a and v_b", lambda m, p: (m, m)
        ),
        witness={"m": 2, "p": 1},
    ),
    Claim(
        "S001-b.i.5", "68", TRUE,
        says="M = A Aᵀ",
        truth="true for orthonormal columns and A ⟂ B, as in the question; A(AᵀA)⁻¹Aᵀ for any "
        "basis, and [A 0][A B]⁺ for any two subspaces whose intersection is 0",
        check=any_basis_will_do,
    ),
    Claim(
        "S004-b.i.1", "68-78", TRUE,
        says="M = Σ λ_i a_i a_iᵀ with λ_i = 1/(a_i·a_i)",
        truth="this is right for orthogonal a_i of any norm",
        check=any_basis_will_do,
    ),
    Claim(
        "S004-b.i.2", "81-83", FALSE,
        says="Σ a_i a_iᵀ/(a_i·a_i) = Aᵀ",
        truth="the sum is A Aᵀ, d × d, as lines 68-78 derive; Aᵀ is m × d and gives the "
        "coordinates of v_a, not v_a",
        check=projector_extracts,
        literal=transpose_extracts,
        witness={"basis": ((0.0, 1.0), (-1.0, 0.0)), "s": (1.0, 0.0)},
    ),
    Claim(
        "S004-b.i.3", "81", TRUE,
        says="Aᵀ B = 0",
        truth="this is right: an m × p block of zeros",
        check=projector_extracts,
    ),
    Claim(
        "S004-b.i.4", "54-56", TYPO, of_question=True,
        says="M_s = v_a, where M is a vector of d elements",
        truth="M s = v_a is meant: a d × d matrix times a vector",
        check=projector_extracts,
        literal=projector_extracts.gives("number of axes of M", 1), witness={"m": 2, "p": 2},
    ),
]
