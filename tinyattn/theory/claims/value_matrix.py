"""Chapter 7: question 1 (e) ii, a matrix V such that V x_1 = u_b and V x_3 = u_b - u_c.

There are four vectors but only three inputs, so other matrices V have the same values.
"""

from __future__ import annotations

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.construction import outer
from tinyattn.theory.finding import EXACT, NEARLY, Finding, equal, every, fact
from tinyattn.theory.lab import Lab, Real, length
from tinyattn.theory.law import check
from tinyattn.theory.laws.construction import made, many_value_matrices


@check(outer, beta=Real(0.01, 30))
def outer_product_of_itself(lab: Lab, beta: float) -> Finding:
    """For |u| = β, u uᵀ u = β² u, and u uᵀ w = 0 for w orthogonal to u."""
    u = made(lab, beta)
    square = outer(u.u_b, u.u_b) / beta**2
    return every(
        equal("u uᵀ u/β³", ops.matmul(square, u.u_b) / beta, u.u_b / beta),
        equal("u uᵀ w/β³", ops.matmul(square, u.u_c) / beta, u.u_c * 0),
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


# fmt: off
CLAIMS = [
    Claim(
        "S000-e.ii.1", "174", TYPO,
        says="V x_3 = u_b u_c",
        truth="the minus sign is missing: u_b - u_c; the product u_b·u_c is a number, 0",
        check=many_value_matrices,
        literal=many_value_matrices.gives("|V x_3|/β", 0), witness={"beta": 2.0, "s": 0.0},
    ),
    Claim(
        "S000-e.ii.2", "176", FALSE,
        says="V must have no term in u_d, but one in u_b, as no other term keeps u_b",
        truth="V_1 = (u_b u_dᵀ + (u_b - u_c)u_cᵀ)/β² has the same values, and so has V + w zᵀ for "
        "any w and z = u_b - u_c - u_d, which is orthogonal to all inputs; V_s is V - s u_b zᵀ/β²",
        check=many_value_matrices,
        literal=many_value_matrices.gives("|V_s u_d|/β", 0), witness={"beta": 2.0, "s": 1.0},
    ),
    Claim(
        "S000-e.ii.3", "178", CONDITIONAL,
        says="V must have terms in u_b and -u_c",
        truth="true for the left factors: V x_1 = u_b and V(x_1 - x_3) = u_c, so the rank is 2 or "
        "more; but u_bᵀ is not needed as a right factor: V_1 = (u_b u_dᵀ + (u_b - u_c)u_cᵀ)/β²",
        check=many_value_matrices,
        literal=many_value_matrices.gives_at_least("|V_s u_b|/β", NEARLY),
        witness={"beta": 2.0, "s": 1.0},
    ),
    Claim(
        "S000-e.ii.4", "180", TRUE,
        says="V needs no term in u_a",
        truth="this is right: V x_2 = 0; if it were w, c_1 and c_2 would change by w/(2 + e^β²)",
        check=many_value_matrices,
    ),
    Claim(
        "S000-e.ii.5", "182", TRUE,
        says="the outer product of u and u, divided by β², maps u to itself",
        check=outer_product_of_itself,
    ),
    Claim(
        "S000-e.ii.6", "186", TYPO,
        says="V = (u_b u_b - u_c u_c)/β²",
        truth="transposes are missing: V = (u_b u_bᵀ - u_c u_cᵀ)/β², as the sheet has it, too",
        check=many_value_matrices, literal=without_transposes, witness={"beta": 2.0},
    ),
    Claim(
        "S000-e.ii.7", "190-193", TRUE,
        says="v_1 = u_b, v_2 = 0 and v_3 = u_b - u_c",
        truth="this is exact for every β > 0",
        check=many_value_matrices,
    ),
]
