"""Chapter 7: question 1 (e) i, three inputs made of four orthogonal vectors, Q = K = V = I.

Only answer sheet 000 has question 1 (e).
"""

from __future__ import annotations

import math

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.construction import (
    Parts,
    closest_copy,
    construction_errors,
    parts,
    self_attention,
    self_weight,
)
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, OneOf, Real, by_hand, length


def made(lab: Lab, beta: float) -> Parts:
    """u_a, u_b, u_c and u_d of norm β, in 4 to 7 dimensions."""
    return parts(lab.orthonormal(4), beta)


def missing(beta: float) -> float:
    """1/(2 + e^β²), the weight of a key with the score 0 if the others are 0 and β²."""
    return math.exp(-beta * beta) / (2 * math.exp(-beta * beta) + 1)


def with_additions(u: Parts, s: float, t: float) -> tuple[Tensor, Tensor]:
    """c_2 and its weights, if x_2 is u_a + s u_d + t u_c."""
    x_2 = u.u_a + s * u.u_d + t * u.u_c
    c, weights = self_attention(ops.stack([u.u_d + u.u_b, x_2, u.u_c + u.u_b]))
    return c[1], weights[1]


# What is true --------------------------------------------------------------------------------


def output_is_a_weighted_sum(lab: Lab, scale: float) -> Finding:
    """c_2 is the sum of values by softmax weights, for any matrices."""
    x, Q, K, V = lab.normal(3, 5), *(lab.normal(5, 5) * scale for _ in range(3))
    (x_n, Q_n, K_n, V_n) = (matrix.numpy() for matrix in (x, Q, K, V))
    scores = x_n @ K_n.T @ (Q_n @ x_n[1])
    return equal("c_2", self_attention(x, Q, K, V)[0][1], by_hand(scores) @ x_n @ V_n.T, 1e-9)


def second_is_orthogonal(lab: Lab, beta: float) -> Finding:
    """x_2 is orthogonal to x_1 and x_3; these are not orthogonal to each other."""
    x = made(lab, beta).inputs()
    products = ops.matmul(x, x.swapaxes(-1, -2)) / beta**2
    return equal("dot products/β²", products, [[2, 0, 1], [0, 1, 0], [1, 0, 2]])


def score_of_zero_has_weight(lab: Lab, beta: float) -> Finding:
    """The other keys have the score 0, so a weight of e⁰/(2 + e^β²)."""
    weights = self_attention(made(lab, beta).inputs())[1][1]
    off = missing(beta)
    return every(
        equal("α_2", weights, [off, 1 - 2 * off, off]),
        equal("α_22", self_weight(beta), 1 - 2 * off),
    )


def error_of_a_copy(lab: Lab, beta: float) -> Finding:
    """|c_2 - u_a| = √10 β/(2 + e^β²) for any β, and the β of errors of 1 % and 0.1 %."""
    u = made(lab, beta)
    c = self_attention(u.inputs())[0]
    error = math.sqrt(10) * beta * missing(beta)
    needed = [(b, construction_errors(b)["identities"] / b) for b in (2.398, 2.839)]
    return every(
        equal("|c_2 - u_a|", length(c[1] - u.u_a), error),
        equal("by the formula", construction_errors(beta)["identities"], error),
        *(equal(f"error/β at β = {b}:", e, w, w / 100)
          for (b, e), w in zip(needed, (0.01, 0.001), strict=True)),
    )  # fmt: skip


def no_addition_copies(lab: Lab, beta: float, s: float, t: float) -> Finding:
    """x_2 has the largest weight in c_2, since (s - ½)² + t² + ¾ > 0, also with s and t swapped."""
    u = made(lab, beta)
    c, weights = with_additions(u, s, t)
    distance = length(c - u.u_b)
    one, both = with_additions(u, 1, 0)[0], with_additions(u, 1, 1)[0]
    short = made(lab, 1e-4)
    near = length(with_additions(short, -1, -1)[0] - short.u_b) / short.beta
    return every(
        equal("β → 0, s = t = -1: |c_2 - u_b|/β", near, closest_copy(1), 1e-6),
        at_least("α_22", weights[1], 1 / (1 + 2 * math.exp(-0.75 * beta**2))),
        at_least("|c_2 - u_b|", distance, math.sqrt(2) * beta * weights.numpy()[1]),
        at_least("|c_2 - u_b|", distance, closest_copy(beta)),
        at_least("|c_2 - u_b| with u_d", length(one - u.u_b), math.sqrt(7) / 3 * beta),
        at_most("|c_2 - u_b| with u_d", length(one - u.u_b), math.sqrt(3) * beta),
        at_least("with u_d and u_c", length(both - u.u_b), math.sqrt(10) / 3 * beta),
    )


def sum_is_copied(lab: Lab, beta: float, added: str) -> Finding:
    """Weights are as e^β² : e^2β² : 1, or reversed, and the error follows from them."""
    u = made(lab, beta)
    c, weights = with_additions(u, added == "u_d", added == "u_c")
    fall = math.exp(-beta * beta)
    total = fall + 1 + fall**2
    wanted = [fall / total, 1 / total, fall**2 / total][:: 1 if added == "u_d" else -1]
    missed = math.hypot(1 - 1 / total, fall**2 / total)
    return every(
        equal("α_2", weights, wanted),
        equal("|c_2 - sum|", length(c - u.u_a - getattr(u, added)), math.sqrt(2) * beta * missed),
    )


# What the sheet says -------------------------------------------------------------------------


def others_drop_out(lab: Lab, beta: float) -> Finding:
    """The other scores for x_2 are 0, so x_2 has all the weight."""
    return equal("α_2", self_attention(made(lab, beta).inputs())[1][1], (0, 1, 0), NEARLY)


def copies_itself(lab: Lab, beta: float) -> Finding:
    """c_2 ≈ u_a."""
    u = made(lab, beta)
    c = self_attention(u.inputs())[0]
    return at_most("|c_2 - u_a|/β", length(c[1] - u.u_a) / beta, NEARLY)


def copies_the_sum(lab: Lab, beta: float) -> Finding:
    """c_2 = u_a + u_d for x_2 = u_a + u_d."""
    u = made(lab, beta)
    c = with_additions(u, 1, 0)[0]
    return at_most("|c_2 - (u_a + u_d)|/β", length(c - u.u_a - u.u_d) / beta, NEARLY)


# fmt: off
CLAIMS = [
    Claim(
        "S000-e.i.1", "156", TRUE,
        says="c_2 = α_21 v_1 + α_22 v_2 + α_23 v_3",
        truth="this is the definition; α_2j is the softmax over j of k_j·q_2",
        under_test=(self_attention,),
        corrected=output_is_a_weighted_sum, domain={"scale": Real(0, 5)},
    ),
    Claim(
        "S000-e.i.2", "158", TRUE,
        says="x_2 is orthogonal to x_1 and x_3",
        truth="this is exact, in 4 dimensions or more; x_1 and x_3 share u_b, so x_1·x_3 = β²",
        under_test=(parts, Parts.inputs),
        corrected=second_is_orthogonal, domain={"beta": Real(0.01, 100)},
    ),
    Claim(
        "S000-e.i.3", "158", CONDITIONAL,
        says="the other scores are zero, so c_2 is approximately α_22 v_2",
        truth="a score of 0 has a weight proportional to e⁰, as in lines 160-161: α_21 = α_23 = "
        "1/(2 + e^β²), small if e^β² ≫ 2",
        under_test=(self_attention, self_weight),
        corrected=score_of_zero_has_weight, domain={"beta": Real(0.01, 30)},
        literal=others_drop_out, witness={"beta": 0.5},
    ),
    Claim(
        "S000-e.i.4", "160-161", CONDITIONAL,
        says="c_2 ≈ u_a",
        truth="|c_2 - u_a| = √10 β/(2 + e^β²): an error of 1 % of β needs β ≥ 2.398, 0.1 % 2.839",
        under_test=(self_attention, construction_errors),
        corrected=error_of_a_copy, domain={"beta": Real(0.01, 30)},
        literal=copies_itself, witness={"beta": 1.0},
    ),
    Claim(
        "S000-e.i.5", "163, 167", TRUE,
        says="adding u_d or u_c to x_2 cannot make c_2 a copy of u_b",
        truth="this is right: for x_2 = u_a + s u_d + t u_c with any real s, t and β > 0, α_22 ≥ ⅓ "
        "and |c_2 - u_b| ≥ √2 α_22 β ≥ √2 β/3; with u_d alone it is from √7 β/3 to √3 β",
        under_test=(self_attention, closest_copy),
        corrected=no_addition_copies,
        domain={"beta": Real(0.01, 10), "s": Real(-30, 30), "t": Real(-30, 30)},
    ),
    Claim(
        "S000-e.i.6", "165", CONDITIONAL,
        says="if u_d or u_c is added to x_2, c_2 = u_a + u_d or u_a + u_c",
        truth="true only for β → ∞: with u_d the weights are as e^β² : e^2β² : 1, and the error is "
        "√2 β √((1 - α_22)² + α_23²)",
        under_test=(self_attention,),
        corrected=sum_is_copied, domain={"beta": Real(0.01, 20), "added": OneOf(("u_d", "u_c"))},
        literal=copies_the_sum, witness={"beta": 1.0},
    ),
]
