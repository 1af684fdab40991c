"""Chapter 7: laws of self-attention with matrices Q, K and V that are chosen by hand.

Three inputs are made of four orthogonal vectors, u_a to u_d, of norm β. E is e^β².

    x_1 = u_d + u_b     x_2 = u_a     x_3 = u_c + u_b

α_i are the weights of input i, α_ij the weight of x_j among them, and c_i is the output.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.construction import (
    Parts,
    beta_needed,
    closest_copy,
    construction_errors,
    outer,
    parts,
    self_attention,
    self_weight,
)
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, OneOf, Real, by_hand, length
from tinyattn.theory.law import law


def made(lab: Lab, beta: float) -> Parts:
    """u_a, u_b, u_c and u_d of norm β, in 4 to 7 dimensions."""
    return parts(lab.orthonormal(4), beta)


def missing(beta: float) -> float:
    """1/(2 + E), the weight of a key with the score 0 if the others are 0 and β²."""
    return math.exp(-beta * beta) / (2 * math.exp(-beta * beta) + 1)


def with_additions(u: Parts, s: float, t: float) -> tuple[Tensor, Tensor]:
    """c_2 and its weights, if x_2 is u_a + s u_d + t u_c, without matrices."""
    x_2 = u.u_a + s * u.u_d + t * u.u_c
    c, weights = self_attention(ops.stack([u.u_d + u.u_b, x_2, u.u_c + u.u_b]))
    return c[1], weights[1]


def wanted_values(u: Parts) -> Tensor:
    """The values u_b, 0 and u_b - u_c, as rows."""
    return ops.stack([u.u_b, u.u_b * 0, u.u_b - u.u_c])


def weights_by_q(beta: float) -> np.ndarray:
    """The weights of Q = (u_d u_aᵀ + u_c u_dᵀ)/β²: x_1 attends to x_3, x_2 to x_1, x_3 to all."""
    off = missing(beta)
    return np.array([[off, off, 1 - 2 * off], [1 - 2 * off, off, off], [1 / 3] * 3])


def outputs(u: Parts, Q: Tensor, V: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Outputs and weights with K = I; V is the sheet's if it is not given."""
    return self_attention(u.inputs(), Q, None, u.value_matrix() if V is None else V)


def relative_errors(u: Parts, c: Tensor) -> list[float]:
    """|c_1 - (u_b - u_c)|/|u_b - u_c| and |c_2 - u_b|/|u_b|."""
    wanted = (u.u_b - u.u_c, u.u_b)
    return [length(c[i] - vector) / length(vector) for i, vector in enumerate(wanted)]


# Any matrices --------------------------------------------------------------------------------


@law("12_construction", self_attention, scale=Real(0, 5), longest=Real(1, 5))
def only_a_product_scores(lab: Lab, scale: float, longest: float) -> Finding:
    """c_i = Σ_j α_ij V x_j; α_i is the softmax over j of x_jᵀ KᵀQ x_i, for any Q, K and V.

    So for any invertible K the matrices K and K^-T Q give the weights of I and Q.
    """
    x, Q, V = lab.normal(3, 5), lab.normal(5, 5) * scale, lab.normal(5, 5) * scale
    left, right = lab.orthonormal(5, 0), lab.orthonormal(5, 0)
    norms = lab.tensor(lab.rng.uniform(1 / longest, longest, 5))
    K, inverse = (ops.matmul(m, right) for m in (left * norms, left / norms))  # inverse is K^-T
    c, weights = self_attention(x, Q, K, V)
    x_n, Q_n, K_n, V_n = (matrix.numpy() for matrix in (x, Q, K, V))
    wanted, plain = (by_hand(x_n @ Q_n.T @ m @ x_n.T) for m in (K_n, np.eye(5)))
    same = self_attention(x, ops.matmul(inverse, Q), K)[1]
    return every(
        equal("weights of Q and K", weights, wanted, 1e-9),
        equal("c_2", c[1], wanted[1] @ x_n @ V_n.T, 1e-9),
        equal("weights of Q and I", self_attention(x, Q)[1], plain, 1e-9),
        equal("weights of K^-T Q and K", same, plain, 1e-9),
    )


# No matrices ---------------------------------------------------------------------------------


@law("12_construction", self_attention, parts, Parts.inputs, self_weight, construction_errors,
     beta=Real(0.01, 30))  # fmt: skip
def x_2_nearly_copies_itself(lab: Lab, beta: float) -> Finding:
    """Q = K = V = I: α_2 = (1, E, 1)/(2 + E), E = e^β², so |c_2 - u_a| = √10 β/(2 + E).

    x_2 is orthogonal to x_1 and x_3, but these are not orthogonal to each other. An error of 1 % of
    β needs β ≥ 2.398, 0.1 % β ≥ 2.839.
    """
    u, off = made(lab, beta), missing(beta)
    x = u.inputs()
    c, weights = self_attention(x)
    needed = [(b, construction_errors(b)["identities"] / b) for b in (2.398, 2.839)]
    return every(
        equal("x_i·x_j/β²", ops.matmul(x, x.T) / beta**2, [[2, 0, 1], [0, 1, 0], [1, 0, 2]]),
        equal("α_2", weights[1], [off, 1 - 2 * off, off]),
        equal("α_22 by the formula", self_weight(beta), 1 - 2 * off),
        equal("|c_2 - u_a|/β", length(c[1] - u.u_a) / beta, math.sqrt(10) * off),
        equal("|c_2 - u_a| by the formula", construction_errors(beta)["identities"],
              math.sqrt(10) * beta * off),
        *(equal(f"error/β at β = {b}:", e, w, w / 100)
          for (b, e), w in zip(needed, (0.01, 0.001), strict=True)),
    )  # fmt: skip


@law("12_construction", self_attention, closest_copy,
     beta=Real(0.01, 10), s=Real(-30, 30), t=Real(-30, 30))  # fmt: skip
def no_addition_copies(lab: Lab, beta: float, s: float, t: float) -> Finding:
    """x_2 = u_a + s u_d + t u_c, real s and t: α_22 ≥ ⅓, |c_2 - u_b| ≥ √2 α_22 β ≥ √2 β/3.

    The score of x_2 for itself is the largest, as (s - ½)² + t² + ¾ > 0, also with s and t swapped.
    With u_d alone |c_2 - u_b| is from √7 β/3 to √3 β.
    """
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


@law("12_construction", self_attention, beta=Real(0.01, 20), added=OneOf(("u_d", "u_c")))
def sum_is_copied(lab: Lab, beta: float, added: str) -> Finding:
    """x_2 = u_a + u_d: α_2 is as E : E² : 1, E = e^β², and c_2 → x_2 only as β → ∞.

    |c_2 - x_2| = √2 β √((1 - α_22)² + α_23²); with u_c instead of u_d keys 1 and 3 are swapped.
    """
    u = made(lab, beta)
    c, weights = with_additions(u, added == "u_d", added == "u_c")
    fall = math.exp(-beta * beta)
    total = fall + 1 + fall**2
    wanted = [fall / total, 1 / total, fall**2 / total][:: 1 if added == "u_d" else -1]
    missed = math.hypot(1 - 1 / total, fall**2 / total)
    off = length(c - u.u_a - getattr(u, added)) / beta
    return every(equal("α_2", weights, wanted), equal("|c_2 - x_2|/β", off, math.sqrt(2) * missed))


# The value matrix ----------------------------------------------------------------------------


@law("12_construction", self_attention, outer, Parts.value_matrix, Parts.query_matrix,
     beta=Real(0.01, 10), s=Real(-3, 3))  # fmt: skip
def many_value_matrices(lab: Lab, beta: float, s: float) -> Finding:
    """V = (u_b u_bᵀ - u_c u_cᵀ)/β² has the values u_b, 0 and u_b - u_c, and so has V + w zᵀ.

    w is any vector, and z = u_b - u_c - u_d, which is orthogonal to all inputs. The outputs are the
    same, too, and the rank is 2 or more. Among them are V_s = V - s u_b zᵀ/β² for all s, and V_1 is
    (u_b u_dᵀ + (u_b - u_c)u_cᵀ)/β². But if V x_2 were w, c_1 and c_2 would change by w/(2 + e^β²).
    """
    u = made(lab, beta)
    x, Q, V, four = u.inputs(), u.query_matrix(), u.value_matrix(), ops.stack([*vars(u).values()])
    z, w = u.u_b - u.u_c - u.u_d, beta * lab.normal(u.u_a.shape[0])
    V_1 = (outer(u.u_b, u.u_d) + outer(u.u_b - u.u_c, u.u_c)) / beta**2
    V_s = V + s * (V_1 - V)
    alike = (V, V_s, V + outer(w, z) / beta**2)
    values = wanted_values(u).numpy() / beta
    c = weights_by_q(beta) @ values
    norm_of_b, norm_of_d = (
        round(length(ops.matmul(V_s, vector)) / beta, 12) for vector in (u.u_b, u.u_d)
    )
    moved = outputs(u, Q, V + outer(w, u.u_a) / beta**2)[0] / beta
    return every(
        equal("V x_i/β", ops.stack([ops.matmul(x, W.T) for W in alike]) / beta, [values] * 3),
        equal("c_i/β", ops.stack([outputs(u, Q, W)[0] for W in alike]) / beta, [c] * 3),
        at_least("ranks", [np.linalg.matrix_rank(W.numpy()) for W in alike], 2),
        equal("|V x_3|/β", length(ops.matmul(V, x[2])) / beta, math.sqrt(2)),
        equal("V u_a, V u_b, V u_c, V u_d, over β:", ops.matmul(four, V.T) / beta,
              ops.stack([0 * u.u_a, u.u_b, -1 * u.u_c, 0 * u.u_d]) / beta),
        equal("V_s - V", V_s - V, -s * outer(u.u_b, z) / beta**2),
        equal("|V_s u_b|/β", norm_of_b, abs(1 - s)),
        equal("|V_s u_d|/β", norm_of_d, abs(s)),
        equal("c_1/β and c_2/β if V x_2 = w", moved[:2], c[:2] + w.numpy() / beta * missing(beta)),
    )  # fmt: skip


# The query matrix ----------------------------------------------------------------------------


@law("12_construction", self_attention, Parts.query_matrix, construction_errors,
     beta=Real(0.05, 20))  # fmt: skip
def query_matrix_finds_both_keys(lab: Lab, beta: float) -> Finding:
    """Q = (u_d u_aᵀ + u_c u_dᵀ)/β²: α_1 = (1, 1, E)/(2 + E), α_2 = (E, 1, 1)/(2 + E), E = e^β².

    So |c_1 - (u_b - u_c)| = √5 β/(2 + E) and |c_2 - u_b| = √2 β/(2 + E). The weights of x_3 are
    equal, so c_3 = (2u_b - u_c)/3.
    """
    u, off, formula = made(lab, beta), missing(beta), construction_errors(beta)
    c, weights = outputs(u, u.query_matrix())
    c_1, c_2 = length(c[0] - u.u_b + u.u_c), length(c[1] - u.u_b)
    relative = [math.sqrt(5 / 2) * off, math.sqrt(2) * off]
    return every(
        equal("weights", weights, weights_by_q(beta)),
        equal("α_13", weights[0, 2], self_weight(beta)),
        equal("|c_1 - (u_b - u_c)|", [c_1, formula["c_1"]], [math.sqrt(5) * beta * off] * 2),
        equal("|c_2 - u_b|", [c_2, formula["c_2"]], [math.sqrt(2) * beta * off] * 2),
        equal("relative errors of c_1 and c_2", relative_errors(u, c), relative),
        equal("c_3", c[2], (2 * u.u_b - u.u_c) / 3),
    )


@law("12_construction", self_attention, Parts.query_matrix,
     beta=Real(0.1, 6), t_1=Real(-3, 3), t_2=Real(-3, 3), t_3=Real(-3, 3))  # fmt: skip
def must_lead_both(lab: Lab, beta: float, t_1: float, t_2: float, t_3: float) -> Finding:
    """If a key leads *both* others by Δ, the relative error of the output is at most 2e^-Δ.

    Here Q x_1 = u_c + t_1 u_a has the scores (0, t_1, 1)β² and should find x_3,
    Q x_2 = u_d + t_2 u_a + t_3 u_c has (1, t_2, t_3)β² and should find x_1.
    """
    u = made(lab, beta)
    more = t_1 * outer(u.u_a, u.u_d) + outer(t_2 * u.u_a + t_3 * u.u_c, u.u_a)
    c, weights = outputs(u, u.query_matrix() + more / beta**2)
    scores = beta**2 * np.array([(0, t_1, 1), (1, t_2, t_3)])
    leads = beta**2 * np.array([1 - max(0, t_1), 1 - max(t_2, t_3)])
    errors = relative_errors(u, c)
    return every(
        equal("α_1 and α_2", weights[:2], by_hand(scores)),
        at_most("relative error of c_1", errors[0], 2 * math.exp(-leads[0])),
        at_most("relative error of c_2", errors[1], 2 * math.exp(-leads[1])),
    )


@law("12_construction", self_attention, beta=Real(0.05, 6), s=Real(-3, 3))
def queries_that_agree(lab: Lab, beta: float, s: float) -> Finding:
    """Q x_2 = u_d + s(u_a + u_c + u_d) gives the same weights for every s: β² s is in all scores.

    For s = -1 this is -(u_a + u_c), without u_d.
    """
    u, off = made(lab, beta), missing(beta)
    query = u.u_d + s * (u.u_a + u.u_c + u.u_d)
    share = round(ops.matmul(query, u.u_d).item() / beta**2, 12)
    return every(
        equal("α_2", outputs(u, outer(query, u.u_a) / beta**2)[1][1], [1 - 2 * off, off, off]),
        equal("u_d·Q x_2/β²", share, 1 + s),
    )


@law("12_construction", self_attention, Parts.query_matrix, beta_needed,
     eta=Real(1e-6, 0.66), shorter=Real(0.1, 1))  # fmt: skip
def length_needed(lab: Lab, eta: float, shorter: float) -> Finding:
    """α_13 and α_21, the weights of the wanted keys, are 1 - η if β² = ln(2(1 - η)/η).

    β is 1.700, 2.300 and 2.757 for η = 0.1, 0.01 and 0.001. A larger Q compensates for a smaller β.
    """
    beta = beta_needed(eta)
    u, short = made(lab, beta), made(lab, beta * shorter)
    weights = outputs(u, u.query_matrix())[1]
    return every(
        equal("α_13 and α_21", [weights[0, 2].item(), weights[1, 0].item()], [1 - eta] * 2),
        equal("weights, small β:", outputs(short, short.query_matrix() / shorter**2)[1], weights),
        equal("β for 10, 1 and 0.1 %:", [beta_needed(e) for e in (0.1, 0.01, 0.001)],
              (1.700, 2.300, 2.757), 0.0005),
    )  # fmt: skip
