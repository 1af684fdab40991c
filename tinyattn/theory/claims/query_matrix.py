"""Chapter 7: question 1 (e) ii, matrices Q and K such that c_1 = u_b - u_c and c_2 = u_b.

The score of one key must exceed those of both others; ≫ is again a difference.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.claims.one_head import MUCH
from tinyattn.theory.claims.orthogonal_inputs import made, missing
from tinyattn.theory.claims.value_matrix import weights_by_q
from tinyattn.theory.construction import (
    Parts,
    beta_needed,
    construction_errors,
    outer,
    self_attention,
    self_weight,
)
from tinyattn.theory.finding import EXACT, NEARLY, Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Domain, Lab, Real, by_hand, length

CLOSE = 0.05
"""The largest relative error of an output that is called close."""


def attention(u: Parts, Q: Tensor, K: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Outputs and weights with the sheet's V."""
    return self_attention(u.inputs(), Q, K, u.value_matrix())


def scores(u: Parts, Q: Tensor, row: int) -> np.ndarray:
    """The scores k_j·q for the query of one input, with K = I."""
    x = u.inputs()
    products: np.ndarray = ops.matmul(x, ops.matmul(Q, x[row])).numpy()
    return products


def error(u: Parts, Q: Tensor, row: int) -> float:
    """The relative error of c_1 or c_2 as u_b - u_c or u_b."""
    wanted = (u.u_b - u.u_c, u.u_b)[row]
    return length(attention(u, Q)[0][row] - wanted) / length(wanted)


# What is true --------------------------------------------------------------------------------


def weights_and_errors(lab: Lab, beta: float) -> Finding:
    """All nine weights, and the errors of the outputs."""
    u = made(lab, beta)
    c, weights = attention(u, u.query_matrix())
    off, formula = missing(beta), construction_errors(beta)
    c_1, c_2 = length(c[0] - u.u_b + u.u_c), length(c[1] - u.u_b)
    return every(
        equal("weights", weights, weights_by_q(beta)),
        equal("α_13", self_weight(beta), 1 - 2 * off),
        equal("|c_1 - (u_b - u_c)|", [c_1, formula["c_1"]], [math.sqrt(5) * beta * off] * 2),
        equal("|c_2 - u_b|", [c_2, formula["c_2"]], [math.sqrt(2) * beta * off] * 2),
        equal("c_3", c[2], (2 * u.u_b - u.u_c) / 3),
    )


def must_lead_both(lab: Lab, beta: float, t_1: float, t_2: float) -> Finding:
    """If a key leads both others by Δ, the relative error of the output is at most 2 e^-Δ.

    Here Q has the additional terms t_1 u_a u_dᵀ/β² and t_2 u_a u_aᵀ/β², which key 2 gains by.
    """
    u = made(lab, beta)
    Q = u.query_matrix() + (t_1 * outer(u.u_a, u.u_d) + t_2 * outer(u.u_a, u.u_a)) / beta**2
    leads = [
        s[right] - max(s[i] for i in range(3) if i != right)
        for s, right in ((scores(u, Q, 0), 2), (scores(u, Q, 1), 0))
    ]
    return every(
        equal("leads", leads, [beta**2 * (1 - max(0, x)) for x in (t_1, t_2)], 1e-9),
        at_most("relative error of c_1", error(u, Q, 0), 2 * math.exp(-leads[0])),
        at_most("relative error of c_2", error(u, Q, 1), 2 * math.exp(-leads[1])),
    )


def any_keys_will_do(lab: Lab, beta: float, longest: float) -> Finding:
    """For invertible K, K and K^-T Q give the weights of I and Q; scores depend on KᵀQ."""
    u = made(lab, beta)
    basis = lab.orthonormal(u.u_a.shape[0], 0)
    norms = lab.tensor(lab.rng.uniform(1 / longest, longest, basis.shape[0]))
    K, inverse = basis * norms, basis / norms  # inverse is K^-T
    Q, other = u.query_matrix(), lab.normal(*basis.shape)
    x = u.inputs().numpy()
    any_scores = x @ other.numpy().T @ K.numpy() @ x.T  # x_jᵀ KᵀQ x_i, not only for this Q
    wanted = weights_by_q(beta)
    return every(
        equal("weights, K = I:", attention(u, Q)[1], wanted),
        equal("weights, K and K^-T Q:", attention(u, ops.matmul(inverse, Q), K)[1], wanted),
        equal("weights of any Q", attention(u, other, K)[1], by_hand(any_scores), 1e-9),
    )


def queries_that_agree(lab: Lab, beta: float, s: float) -> Finding:
    """Q x_2 may be u_d + s (u_a + u_c + u_d): the sum adds β² s to all scores."""
    u = made(lab, beta)
    query = u.u_d + s * (u.u_a + u.u_c + u.u_d)
    row, off = attention(u, outer(query, u.u_a) / beta**2)[1][1], missing(beta)
    return equal("α_2", row, [1 - 2 * off, off, off])


def only_the_difference(lab: Lab, A: float, B: float) -> Finding:
    """e^A/(e^A + e^B) depends on A - B only."""
    share = lab.weights([A, B])[0]
    return equal("e^A/(e^A + e^B)", share, (1 + math.tanh((A - B) / 2)) / 2)


def length_needed(lab: Lab, eta: float, shorter: float) -> Finding:
    """With β² = ln(2(1 - η)/η) the weight is 1 - η; a larger Q compensates for a smaller β."""
    beta = beta_needed(eta)
    u, short = made(lab, beta), made(lab, beta * shorter)
    weights = attention(u, u.query_matrix())[1]
    return every(
        equal("α_13", weights[0, 2], 1 - eta),
        equal("α_21", weights[1, 0], 1 - eta),
        equal("weights, small β:", attention(short, short.query_matrix() / shorter**2)[1], weights),
        equal("β for 10, 1 and 0.1 %:", [beta_needed(e) for e in (0.1, 0.01, 0.001)],
              (1.700, 2.300, 2.757), 0.0005),
    )  # fmt: skip


# What the sheet says -------------------------------------------------------------------------


def enough(u: Parts, row: int, better: int, worse: int, added: str, t: float) -> Finding:
    """If one score exceeds one other, the output is close; Q has a further term, t times."""
    to = ("u_d", "u_a")[row]
    Q = u.query_matrix() + t * outer(getattr(u, added), getattr(u, to)) / u.beta**2
    s, off = scores(u, Q, row), error(u, Q, row)
    return fact(
        s[better] - s[worse] < math.log(MUCH) or off < CLOSE,
        f"c_{row + 1} is close",
        f"Q + t {added} {to}ᵀ/β² has scores ({', '.join(f'{x + 0:.0f}' for x in s.round(9))}) "
        f"for x_{row + 1}, and the error of c_{row + 1} is {off:.0%}",
    )


def third_beats_first(lab: Lab, beta: float, t: float) -> Finding:
    """For c_1 it is enough that k_3·q_1 exceeds k_1·q_1; Q x_1 has a further term in u_a."""
    return enough(made(lab, beta), 0, 2, 0, "u_a", t)


def first_beats_third(lab: Lab, beta: float, t: float) -> Finding:
    """For c_2 it is enough that k_1·q_2 exceeds k_3·q_2; Q x_2 has a further term in u_a."""
    return enough(made(lab, beta), 1, 0, 2, "u_a", t)


def first_beats_second(lab: Lab, beta: float, t: float) -> Finding:
    """For c_2 it is enough that k_1·q_2 exceeds k_2·q_2; Q x_2 has a further term in u_c."""
    return enough(made(lab, beta), 1, 0, 1, "u_c", t)


def query_contains_u_d(lab: Lab, beta: float, s: float) -> Finding:
    """If c_2 is close to u_b, Q x_2 has a term in u_d; here it is u_d + s(u_a + u_c + u_d)."""
    u = made(lab, beta)
    query = u.u_d + s * (u.u_a + u.u_c + u.u_d)
    Q = outer(query, u.u_a) / beta**2
    part, row = ops.matmul(query, u.u_d).item() / beta**2, attention(u, Q)[1].numpy()[1]
    return fact(
        error(u, Q, 1) > CLOSE or abs(part) > EXACT,
        f"Q x_2 contains {part:.2f} u_d",
        "Q x_2 = u_d + s(u_a + u_c + u_d) contains no u_d, and α_2 = "
        f"({', '.join(f'{w:.4f}' for w in row)})",
    )


def does_the_job(lab: Lab, beta: float) -> Finding:
    """c_1 = u_b - u_c and c_2 = u_b."""
    u = made(lab, beta)
    errors = [error(u, u.query_matrix(), row) for row in (0, 1)]
    return at_most("relative errors of c_1 and c_2", errors, CLOSE)


def much_larger_without_exp(lab: Lab, A: float, B: float) -> Finding:
    """exp(A) ≫ exp(B) is A ≫ B."""
    alpha = lab.weights([A, B]).numpy()
    much = alpha[0] >= MUCH * alpha[1]
    return fact(
        bool(much) == (A >= MUCH * B),
        "both are much larger, or neither is",
        f"e^A is {alpha[0] / alpha[1]:,.0f} times e^B, but A is {A / B:.2f} times B",
    )


def positive_is_enough(lab: Lab, beta: float) -> Finding:
    """β² ≫ 0, so α_13 = 1."""
    u = made(lab, beta)
    return equal("α_13", attention(u, u.query_matrix())[1][0, 2], 1.0, NEARLY)


# fmt: off
LEADS: Domain = {"beta": Real(0.1, 6), "t_1": Real(-3, 3), "t_2": Real(-3, 3)}

CLAIMS = [
    Claim(
        "S000-e.ii.8", "199-201, 242", CONDITIONAL,
        says="c_1 needs exp(k_3·q_1) ≫ exp(k_1·q_1) (the sheet checks no other condition)",
        truth="it does; but k_3·q_1 must exceed k_2·q_1, too, whose value is 0: if it exceeds both "
        "by Δ, the relative error is at most 2e^-Δ",
        under_test=(self_attention, Parts.query_matrix),
        corrected=must_lead_both, domain=LEADS,
        literal=third_beats_first, witness={"beta": 3.0, "t": 10.0},
    ),
    Claim(
        "S000-e.ii.9", "205-207, 242", CONDITIONAL,
        says="c_2 needs exp(k_1·q_2) ≫ exp(k_3·q_2) (the sheet checks no other condition)",
        truth="it does; but k_1·q_2 must exceed k_2·q_2, too",
        under_test=(self_attention, Parts.query_matrix),
        corrected=must_lead_both, domain=LEADS,
        literal=first_beats_third, witness={"beta": 3.0, "t": 10.0},
    ),
    Claim(
        "S000-e.ii.10", "209", TRUE,
        says="one may assume K = I",
        truth="this is right: the scores are x_jᵀ KᵀQ x_i; any invertible K and K^-T Q give them",
        under_test=(self_attention, Parts.query_matrix),
        corrected=any_keys_will_do, domain={"beta": Real(0.1, 6), "longest": Real(1, 5)},
    ),
    Claim(
        "S000-e.ii.11", "217", TYPO,
        says="for c_2, exp(x_1ᵀ Q x_2) ≫ exp(x_2ᵀ Q x_2)",
        truth="x_3ᵀ Q x_2 is meant on the right; both conditions are needed",
        under_test=(self_attention, Parts.query_matrix),
        corrected=must_lead_both, domain=LEADS,
        literal=first_beats_second, witness={"beta": 3.0, "t": 10.0},
    ),
    Claim(
        "S000-e.ii.12", "219", FALSE,
        says="Q x_2 must contain u_d",
        truth="Q x_2 = u_d + s(u_a + u_c + u_d) gives the same weights for any s; for s = -1 this "
        "is -(u_a + u_c)",
        under_test=(self_attention,),
        corrected=queries_that_agree, domain={"beta": Real(0.05, 6), "s": Real(-3, 3)},
        literal=query_contains_u_d, witness={"beta": 2.0, "s": -1.0},
    ),
    Claim(
        "S000-e.ii.13", "223-250", CONDITIONAL,
        says="with Q = (u_d u_aᵀ + u_c u_dᵀ)/β², c_1 = u_b - u_c and c_2 = u_b",
        truth="with E = e^β² the weights are (1, 1, E)/(2 + E), (E, 1, 1)/(2 + E) and (1, 1, 1)/3; "
        "the errors are √5 β/(2 + E) and √2 β/(2 + E); c_3 = (2u_b - u_c)/3",
        under_test=(self_attention, Parts.query_matrix, construction_errors),
        corrected=weights_and_errors, domain={"beta": Real(0.05, 20)},
        literal=does_the_job, witness={"beta": 1.0},
    ),
    Claim(
        "S000-e.ii.14", "229-231, 237-239", CONDITIONAL,
        says="exp(A) ≫ exp(B) is equivalent to A ≫ B",
        truth="true if A ≫ B means a large difference, as in S000-a.3: exp(A)/exp(B) is large if "
        "and only if A - B is large, for any A/B",
        under_test=(ops.attention,),
        corrected=only_the_difference, domain={"A": Real(-1000, 1000), "B": Real(-1000, 1000)},
        literal=much_larger_without_exp, witness={"A": 1001.0, "B": 991.0},
    ),
    Claim(
        "S000-e.ii.15", "233, 240", CONDITIONAL,
        says="the construction needs β² ≫ 0",
        truth="a weight of 1 - η needs β² ≥ ln(2(1 - η)/η): β = 1.700, 2.300 and 2.757 for "
        "η = 0.1, 0.01 and 0.001; or a Q that is larger by a factor",
        under_test=(self_attention, Parts.query_matrix, beta_needed),
        corrected=length_needed, domain={"eta": Real(1e-6, 0.66), "shorter": Real(0.1, 1)},
        literal=positive_is_enough, witness={"beta": 1.0},
    ),
]
