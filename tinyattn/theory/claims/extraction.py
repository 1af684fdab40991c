"""Chapter 7: question 1 (b) i, projections: how a matrix recovers v_a from v_a + v_b."""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, equal, every
from tinyattn.theory.lab import Lab, Real, Reals, Whole
from tinyattn.theory.queries import averaging_error, averaging_query
from tinyattn.theory.subspace import coordinates, oblique_projector, projector

INVERTED = 1e-8
"""Like EXACT, for results of the inverse of a matrix that may be nearly singular."""


def bases(lab: Lab, m: int, p: int) -> tuple[Tensor, Tensor]:
    """Orthonormal columns A (D, m) and B (D, p), orthogonal to each other."""
    both = lab.orthonormal(m + p).T
    return both[:, :m], both[:, m:]


def columns(lab: Lab, *vectors: tuple[float, ...]) -> Tensor:
    """The matrix with these vectors as columns."""
    return lab.tensor(np.transpose(vectors))


# What is true --------------------------------------------------------------------------------


def half_of_it(lab: Lab, m: int, p: int, beta: float) -> Finding:
    """M s = v_a, so 2 M c = v_a for the exact mean c; three more values add attention's error."""
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


def both_conditions(lab: Lab, m: int, p: int) -> Finding:
    """M s - v_a = (M A - A) c + M B d for any M: 0 for all c and d only if M A = A and M B = 0.

    M is arbitrary for vectors orthogonal to both subspaces.
    """
    A, B = bases(lab, m, p)
    c, d, D = lab.normal(m), lab.normal(p), A.shape[0]
    v_a, s = ops.matmul(A, c), ops.matmul(A, c) + ops.matmul(B, d)
    M = lab.normal(D, D)
    residue = ops.matmul(ops.matmul(M, A) - A, c) + ops.matmul(ops.matmul(M, B), d)
    outside = lab.tensor(np.eye(D)) - projector(A) - projector(B)
    another = projector(A) + ops.matmul(M, outside)
    return every(
        equal("M s - v_a", ops.matmul(M, s) - v_a, residue),
        equal("M s for another M", ops.matmul(another, s), v_a),
    )


def zeros_of_their_shapes(lab: Lab, m: int, p: int) -> Finding:
    """Aᵀ B is m × p, M v_b has D elements, and all are 0; so M s = v_a."""
    A, B = bases(lab, m, p)
    v_a, v_b = ops.matmul(A, lab.normal(m)), ops.matmul(B, lab.normal(p))
    return every(
        equal("M s", ops.matmul(projector(A), v_a + v_b), v_a),
        equal("Aᵀ B", ops.matmul(A.T, B), np.zeros((m, p))),
        equal("M v_b", ops.matmul(projector(A), v_b), np.zeros(A.shape[0])),
    )


def own_coordinates(lab: Lab, m: int, p: int) -> Finding:
    """s = A c + B d: Aᵀ s = c has m elements, and Bᵀ s = d has p."""
    A, B = bases(lab, m, p)
    c, d = lab.normal(m), lab.normal(p)
    s = ops.matmul(A, c) + ops.matmul(B, d)
    return every(equal("Aᵀ s", coordinates(A, s), c), equal("Bᵀ s", coordinates(B, s), d))


def projects(lab: Lab, m: int, p: int) -> Finding:
    """M = A Aᵀ recovers v_a; M M = M; it is symmetric; its trace is m."""
    A, B = bases(lab, m, p)
    P, v_a = projector(A), ops.matmul(A, lab.normal(m))
    return every(
        equal("M s", ops.matmul(P, v_a + ops.matmul(B, lab.normal(p))), v_a),
        equal("M M", ops.matmul(P, P), P),
        equal("Mᵀ", P.T, P),
        equal("trace of M", np.trace(P.numpy()), m),
    )


def projects_aslant(lab: Lab, m: int, p: int) -> Finding:
    """For independent columns [A 0][A B]⁺ recovers v_a; if A ⟂ B, A(AᵀA)⁻¹Aᵀ does."""
    A, B = lab.normal(m + p + 4, m), lab.normal(m + p + 4, p)
    v_a, v_b = ops.matmul(A, lab.normal(m)), ops.matmul(B, lab.normal(p))
    first, second = bases(lab, m, p)
    bent = ops.matmul(first, lab.tensor(np.eye(m) + np.tri(m, k=-1)))  # not orthogonal any more
    along = oblique_projector(bent, second[:, :0])
    return every(
        projects(lab, m, p),
        equal("[A 0][A B]⁺ s", ops.matmul(oblique_projector(A, B), v_a + v_b), v_a, INVERTED),
        equal("A(AᵀA)⁻¹Aᵀ", along, projector(first), INVERTED),
    )


def any_lengths(lab: Lab, lengths: tuple[float, ...]) -> Finding:
    """M = Σ a_i a_iᵀ/(a_i·a_i) for orthogonal a_i of any norms."""
    m = len(lengths)
    A, B = bases(lab, m, 2)
    stretched = A * lab.tensor(lengths)
    v_a = ops.matmul(stretched, lab.normal(m))
    M = ops.matmul(stretched / (stretched**2).sum(axis=0), stretched.T)
    return every(
        equal("M s", ops.matmul(M, v_a + ops.matmul(B, lab.normal(2))), v_a),
        equal("M", M, oblique_projector(stretched, B), INVERTED),
    )


def transpose_gives_coordinates(lab: Lab, m: int, p: int) -> Finding:
    """Σ a_i a_iᵀ = A Aᵀ is D × D; Aᵀ s has the m coordinates, and A Aᵀ s is v_a."""
    A, B = bases(lab, m, p)
    c = lab.normal(m)
    s = ops.matmul(A, c) + ops.matmul(B, lab.normal(p))
    summed = sum(np.outer(a, a) for a in A.T.numpy())
    return every(
        equal("Σ a_i a_iᵀ", summed, projector(A)),
        equal("Aᵀ s", coordinates(A, s), c),
        equal("A Aᵀ s", ops.matmul(A, coordinates(A, s)), ops.matmul(projector(A), s)),
    )


# What the sheets say -------------------------------------------------------------------------


def transpose_extracts(
    lab: Lab, basis: tuple[tuple[float, ...], ...], s: tuple[float, ...]
) -> Finding:
    """Aᵀ s is the part of s in the span of A."""
    A, sum_ = columns(lab, *basis), lab.tensor(s)
    return equal("Aᵀ s", ops.matmul(A.T, sum_), ops.matmul(oblique_projector(A, A[:, :0]), sum_))


def square_block(lab: Lab, m: int, p: int) -> Finding:
    """Aᵀ B is a block of m × m zeros."""
    A, B = bases(lab, m, p)
    return equal("Aᵀ B", ops.matmul(A.T, B), np.zeros((m, m)))


# fmt: off
CLAIMS = [
    Claim(
        "S001-b.i.1", "29-33", TRUE,
        says="c = ½(v_a + v_b) determines v_a: with s = v_a + v_b there is an M such that M s = "
        "v_a",
        truth="this is right: s = 2c, so 2M c = v_a; if other values have weight in c, their "
        "projection onto A is added",
        under_test=(projector, averaging_query, averaging_error, ops.attention),
        corrected=half_of_it, domain={"m": Whole(1, 5), "p": Whole(1, 5), "beta": Real(-5, 60)},
    ),
    Claim(
        "S001-b.i.2", "39-45", TRUE,
        says="M s = v_a if M v_a = v_a and M v_b = 0",
        truth="true, and for all v_a and v_b only then; for vectors orthogonal to both M is free",
        under_test=(projector,),
        corrected=both_conditions, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
    ),
    Claim(
        "S001-b.i.3", "53, 61, 81", TYPO,
        says="Aᵀ B and M v_b are m × m blocks of zeros",
        truth="Aᵀ B is m × p, and M v_b is the zero vector of d elements",
        under_test=(projector,),
        corrected=zeros_of_their_shapes, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
        literal=square_block, witness={"m": 2, "p": 3},
    ),
    Claim(
        "S001-b.i.4", "47-53, 79", TYPO,
        says="v_a and v_b have the same coordinates c",
        truth="v_a = A c and v_b = B d, where c has m elements and d has p, as B has p columns; "
        "the rest of the proof is right",
        under_test=(coordinates,),
        corrected=own_coordinates, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
        literal=lambda lab, v_a, v_b: equal(
            "coordinates of v_b",
            coordinates(columns(lab, (0.0, 0.0, 1.0)), lab.tensor(v_b)),
            coordinates(columns(lab, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), lab.tensor(v_a)),
        ),
        witness={"v_a": (1.0, 2.0, 0.0), "v_b": (0.0, 0.0, 5.0)},
    ),
    Claim(
        "S001-b.i.5", "68", TRUE,
        says="M = A Aᵀ",
        truth="true for orthonormal columns and A ⟂ B, as in the question; A(AᵀA)⁻¹Aᵀ for any "
        "basis, and [A 0][A B]⁺ for any two subspaces whose intersection is 0",
        under_test=(projector, oblique_projector),
        corrected=projects_aslant, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
    ),
    Claim(
        "S004-b.i.1", "68-78", TRUE,
        says="M = Σ λ_i a_i a_iᵀ with λ_i = 1/(a_i·a_i)",
        truth="this is right for orthogonal a_i of any norm",
        under_test=(oblique_projector,),
        corrected=any_lengths, domain={"lengths": Reals(0.1, 10, 1, 5)},
    ),
    Claim(
        "S004-b.i.2", "81-83", FALSE,
        says="Σ a_i a_iᵀ/(a_i·a_i) = Aᵀ",
        truth="the sum is A Aᵀ, d × d, as lines 68-78 derive; Aᵀ is m × d and gives the "
        "coordinates of v_a, not v_a",
        under_test=(projector, coordinates),
        corrected=transpose_gives_coordinates, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
        literal=transpose_extracts,
        witness={"basis": ((0.0, 1.0), (-1.0, 0.0)), "s": (1.0, 0.0)},
    ),
    Claim(
        "S004-b.i.3", "81", TRUE,
        says="Aᵀ B = 0",
        truth="this is right: an m × p block of zeros",
        under_test=(projector,),
        corrected=zeros_of_their_shapes, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
    ),
    Claim(
        "S004-b.i.4", "54-56", TYPO, of_question=True,
        says="M_s = v_a, where M is a vector of d elements",
        truth="M s = v_a is meant: a d × d matrix times a vector",
        under_test=(projector,),
        corrected=projects, domain={"m": Whole(1, 5), "p": Whole(1, 5)},
        literal=lambda lab, d, m: equal(
            "number of elements of M", projector(lab.orthonormal(m, extra=d - m).T).numpy().size, d
        ),
        witness={"d": 4, "m": 2},
    ),
]
