"""Chapter 7: question 1 (e) ii, a matrix V such that V x_1 = u_b and V x_3 = u_b - u_c.

There are four vectors but only three inputs, so other matrices V have the same values.
"""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.claims.orthogonal_inputs import made, missing
from tinyattn.theory.construction import Parts, outer, self_attention
from tinyattn.theory.finding import EXACT, Finding, at_least, equal, every, fact
from tinyattn.theory.lab import Domain, Lab, Real, length


def wanted_values(u: Parts) -> Tensor:
    """The values u_b, 0 and u_b - u_c, as rows."""
    return ops.stack([u.u_b, u.u_b * 0, u.u_b - u.u_c])


def values(u: Parts, V: Tensor) -> Tensor:
    """V x_i as rows."""
    return ops.matmul(u.inputs(), V.swapaxes(-1, -2))


def unseen(u: Parts) -> Tensor:
    """A direction that is orthogonal to all three inputs."""
    return u.u_b - u.u_c - u.u_d


def other_matrix(u: Parts, s: float) -> Tensor:
    """V - s u_b (u_b - u_c - u_d)ᵀ/β²; for s = 1 it is (u_b u_dᵀ + (u_b - u_c) u_cᵀ)/β²."""
    return u.value_matrix() - s * outer(u.u_b, unseen(u)) / u.beta**2


def weights_by_q(beta: float) -> np.ndarray:
    """The weights of Q = (u_d u_aᵀ + u_c u_dᵀ)/β²: x_1 attends to x_3, x_2 to x_1, x_3 to all."""
    off = missing(beta)
    return np.array([[off, off, 1 - 2 * off], [1 - 2 * off, off, off], [1 / 3] * 3])


# What is true --------------------------------------------------------------------------------


def values_are_as_wanted(lab: Lab, beta: float) -> Finding:
    """The values are u_b, 0 and u_b - u_c, for every β."""
    u = made(lab, beta)
    return equal("V x_i/β", values(u, u.value_matrix()) / beta, wanted_values(u) / beta)


def maps_four_vectors(lab: Lab, beta: float) -> Finding:
    """V maps u_a and u_d to 0, u_b to u_b, and u_c to -u_c."""
    u = made(lab, beta)
    four = ops.stack([u.u_a, u.u_b, u.u_c, u.u_d])
    mapped = ops.matmul(four, u.value_matrix().swapaxes(-1, -2))
    wanted = ops.stack([u.u_a * 0, u.u_b, u.u_c * -1, u.u_d * 0])
    return equal("V u/β", mapped / beta, wanted / beta)


def any_matrix_of_a_family(lab: Lab, beta: float) -> Finding:
    """V', and V + w zᵀ with z orthogonal to all inputs, give the same values and outputs as V."""
    u = made(lab, beta)
    V, Q = u.value_matrix(), u.query_matrix()
    outputs = weights_by_q(beta) @ wanted_values(u).numpy() / beta
    free = outer(lab.normal(V.shape[0]), unseen(u)) / beta
    direct = (outer(u.u_b, u.u_d) + outer(u.u_b - u.u_c, u.u_c)) / beta**2
    return every(
        equal("V'", direct, other_matrix(u, 1.0)),
        *(equal("values/β", values(u, W) / beta, wanted_values(u) / beta)
          for W in (direct, V + free)),
        *(equal("outputs/β", self_attention(u.inputs(), Q, None, W)[0] / beta, outputs)
          for W in (V, direct, V + free)),
    )  # fmt: skip


def columns_contain_both(lab: Lab, beta: float) -> Finding:
    """V x_1 = u_b and V (x_1 - x_3) = u_c, for V and all other matrices with these values."""
    u = made(lab, beta)
    W = u.value_matrix() + outer(lab.normal(u.u_b.shape[0]), unseen(u)) / beta
    mapped = values(u, W) / beta
    one, three = mapped[0], mapped[2]
    return every(
        equal("V x_1/β", one, u.u_b / beta),
        equal("V (x_1 - x_3)/β", one - three, u.u_c / beta),
        at_least("rank", np.linalg.matrix_rank(W.numpy()), 2),
    )


def second_value_is_free(lab: Lab, beta: float) -> Finding:
    """V x_2 = 0; a term w u_aᵀ/β² would change c_1 and c_2 by w/(2 + e^β²)."""
    u = made(lab, beta)
    w, V = lab.normal(u.u_a.shape[0]), u.value_matrix()
    without, with_w = (
        self_attention(u.inputs(), u.query_matrix(), None, W)[0]
        for W in (V, V + outer(w, u.u_a) / beta**2)
    )
    wanted = weights_by_q(beta) @ wanted_values(u).numpy()
    return every(
        equal("V x_2", values(u, V)[1], w * 0),
        equal("c_1 and c_2", without[:2], wanted[:2]),
        equal("c_1 and c_2 with w", with_w[:2], wanted[:2] + w.numpy() * missing(beta)),
    )


def outer_product_of_itself(lab: Lab, beta: float) -> Finding:
    """u uᵀ u = β² u, and u uᵀ w = 0 for w orthogonal to u."""
    u = made(lab, beta)
    square = outer(u.u_b, u.u_b) / beta**2
    return every(
        equal("u uᵀ u/β³", ops.matmul(square, u.u_b) / beta, u.u_b / beta),
        equal("u uᵀ w/β³", ops.matmul(square, u.u_c) / beta, u.u_c * 0),
    )


# What the sheet says -------------------------------------------------------------------------


def value_is_a_product(lab: Lab, beta: float) -> Finding:
    """V x_3 = u_b u_c, the dot product of two vectors, which is a number."""
    u = made(lab, beta)
    long = length(values(u, u.value_matrix())[2])
    product = abs(ops.matmul(u.u_b, u.u_c).item())
    return fact(
        abs(long - product) < EXACT,
        "V x_3 has the norm u_b·u_c",
        f"u_b·u_c = {product:.0f}, but V x_3 has the norm {long:.3f}",
    )


def has_no_term_in_u_d(lab: Lab, beta: float, s: float) -> Finding:
    """Any V with these values has no term in u_d; here: V - s u_b (u_b - u_c - u_d)ᵀ/β²."""
    u = made(lab, beta)
    V = other_matrix(u, s)
    term = length(ops.matmul(V, u.u_d)) / beta
    right = equal("V x_i", values(u, V), wanted_values(u)).holds
    return fact(
        not right or term < EXACT,
        "no term in u_d",
        "V - s u_b(u_b - u_c - u_d)ᵀ/β² has the values u_b, 0 and u_b - u_c, and maps u_d to a "
        f"vector of norm {term:.2g} β",
    )


def has_a_term_in_u_b(lab: Lab, beta: float, s: float) -> Finding:
    """Any V with these values has a term in u_bᵀ; here: V - s u_b (u_b - u_c - u_d)ᵀ/β²."""
    u = made(lab, beta)
    V = other_matrix(u, s)
    term = length(ops.matmul(V, u.u_b)) / beta
    right = equal("V x_i", values(u, V), wanted_values(u)).holds
    return fact(
        not right or term > EXACT,
        "there is a term in u_b",
        f"V - s u_b(u_b - u_c - u_d)ᵀ/β² has the same values as V, but maps u_b to {term:.0f}",
    )


def without_transposes(lab: Lab, beta: float) -> Finding:
    """(u_b·u_b - u_c·u_c)/β², a number, times x_1 is u_b."""
    u = made(lab, beta)
    number = (ops.matmul(u.u_b, u.u_b) - ops.matmul(u.u_c, u.u_c)).item() / u.beta**2
    return fact(
        length(number * u.inputs()[0] - u.u_b) < EXACT,
        "V x_1 = u_b",
        f"u_b·u_b - u_c·u_c = {abs(number):.0f}, so V x_1 would be 0",
    )


BETA: Domain = {"beta": Real(0.01, 30)}

# fmt: off
CLAIMS = [
    Claim(
        "S000-e.ii.1", "174", TYPO,
        says="V x_3 = u_b u_c",
        truth="the minus sign is missing: u_b - u_c",
        under_test=(Parts.value_matrix,), corrected=values_are_as_wanted, domain=BETA,
        literal=value_is_a_product, witness={"beta": 2.0},
    ),
    Claim(
        "S000-e.ii.2", "176", FALSE,
        says="V must have no term in u_d, but one in u_b, as no other term keeps u_b",
        truth="V' = (u_b u_dᵀ + (u_b - u_c)u_cᵀ)/β² has the same values, and so has V + w zᵀ for "
        "any w and z = u_b - u_c - u_d, which is orthogonal to all inputs",
        under_test=(Parts.value_matrix, self_attention),
        corrected=any_matrix_of_a_family, domain={"beta": Real(0.01, 10)},
        literal=has_no_term_in_u_d, witness={"beta": 2.0, "s": 1.0},
    ),
    Claim(
        "S000-e.ii.3", "178", CONDITIONAL,
        says="V must have terms in u_b and -u_c",
        truth="true for the left factors: V x_1 = u_b and V(x_1 - x_3) = u_c, so the rank is 2 or "
        "more; but u_bᵀ is not needed as a right factor",
        under_test=(Parts.value_matrix,), corrected=columns_contain_both, domain=BETA,
        literal=has_a_term_in_u_b, witness={"beta": 2.0, "s": 1.0},
    ),
    Claim(
        "S000-e.ii.4", "180", TRUE,
        says="V needs no term in u_a",
        truth="this is right: V x_2 = 0; if it were w, c_1 and c_2 would change by w/(2 + e^β²)",
        under_test=(Parts.value_matrix, Parts.query_matrix, self_attention),
        corrected=second_value_is_free, domain={"beta": Real(0.05, 10)},
    ),
    Claim(
        "S000-e.ii.5", "182", TRUE,
        says="the outer product of u and u, divided by β², maps u to itself",
        truth="this is right: u uᵀ u = β² u, and u uᵀ w = 0 for w orthogonal to u",
        under_test=(outer,), corrected=outer_product_of_itself, domain=BETA,
    ),
    Claim(
        "S000-e.ii.6", "186", TYPO,
        says="V = (u_b u_b - u_c u_c)/β²",
        truth="transposes are missing: V = (u_b u_bᵀ - u_c u_cᵀ)/β², as the sheet has it, too",
        under_test=(Parts.value_matrix,), corrected=maps_four_vectors, domain=BETA,
        literal=without_transposes, witness={"beta": 2.0},
    ),
    Claim(
        "S000-e.ii.7", "190-193", TRUE,
        says="v_1 = u_b, v_2 = 0 and v_3 = u_b - u_c",
        truth="this is exact for every β > 0",
        under_test=(Parts.value_matrix,), corrected=values_are_as_wanted, domain=BETA,
    ),
]
