"""Chapter 7: question 1 (e) ii, matrices Q and K such that c_1 = u_b - u_c and c_2 = u_b.

The score of one key must exceed those of both others; ≫ is again a difference.
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, fact
from tinyattn.theory.lab import Lab
from tinyattn.theory.laws.construction import (
    length_needed,
    must_lead_both,
    only_a_product_scores,
    queries_that_agree,
    query_matrix_finds_both_keys,
)
from tinyattn.theory.laws.weights import two_share_by_difference

CLOSE = 0.05
"""The largest relative error of an output that is called close."""


def much_larger_without_exp(lab: Lab, A: float, B: float) -> Finding:
    """exp(A) ≫ exp(B) is A ≫ B; much larger is more than 100 times."""
    alpha = lab.weights([A, B]).numpy()
    much = alpha[1] < NEARLY * alpha[0]
    return fact(
        much == (B < NEARLY * A),
        "both are much larger, or neither is",
        f"e^A is {alpha[0] / alpha[1]:,.0f} times e^B, but A is {A / B:.2f} times B",
    )


# fmt: off
CLAIMS = [
    Claim(
        "S000-e.ii.8", "199-201, 242", CONDITIONAL,
        says="c_1 needs exp(k_3·q_1) ≫ exp(k_1·q_1) (the sheet checks no other condition)",
        truth="it does; but k_3·q_1 must exceed k_2·q_1, too, as v_2 is 0: if it exceeds both by "
        "Δ, the relative error is at most 2e^-Δ; with q_1 = u_c + t_1 u_a, k_2·q_1 is t_1 β²",
        check=must_lead_both,
        literal=must_lead_both.gives_at_most("relative error of c_1", CLOSE),
        witness={"beta": 3.0, "t_1": 10.0, "t_2": 0.0, "t_3": 0.0},
    ),
    Claim(
        "S000-e.ii.9", "205-207, 242", CONDITIONAL,
        says="c_2 needs exp(k_1·q_2) ≫ exp(k_3·q_2) (the sheet checks no other condition)",
        truth="it does; but k_1·q_2 must exceed k_2·q_2, too, which is t_2 β² for "
        "q_2 = u_d + t_2 u_a + t_3 u_c",
        check=must_lead_both,
        literal=must_lead_both.gives_at_most("relative error of c_2", CLOSE),
        witness={"beta": 3.0, "t_1": 0.0, "t_2": 10.0, "t_3": 0.0},
    ),
    Claim(
        "S000-e.ii.10", "209", TRUE,
        says="one may assume K = I",
        check=only_a_product_scores,
    ),
    Claim(
        "S000-e.ii.11", "217", TYPO,
        says="for c_2, exp(x_1ᵀ Q x_2) ≫ exp(x_2ᵀ Q x_2)",
        truth="x_3ᵀ Q x_2 is meant on the right; both conditions are needed: for "
        "Q x_2 = u_d + t_2 u_a + t_3 u_c, x_3ᵀ Q x_2 is t_3 β²",
        check=must_lead_both,
        literal=must_lead_both.gives_at_most("relative error of c_2", CLOSE),
        witness={"beta": 3.0, "t_1": 0.0, "t_2": 0.0, "t_3": 10.0},
    ),
    Claim(
        "S000-e.ii.12", "219", FALSE,
        says="Q x_2 must contain u_d",
        check=queries_that_agree,
        literal=queries_that_agree.gives_at_least("u_d·Q x_2/β²", NEARLY),
        witness={"beta": 2.0, "s": -1.0},
    ),
    Claim(
        "S000-e.ii.13", "223-250", CONDITIONAL,
        says="with Q = (u_d u_aᵀ + u_c u_dᵀ)/β², c_1 = u_b - u_c and c_2 = u_b",
        check=query_matrix_finds_both_keys,
        literal=query_matrix_finds_both_keys.gives_at_most("relative errors of c_1 and c_2", CLOSE),
        witness={"beta": 1.0},
    ),
    Claim(
        "S000-e.ii.14", "229-231, 237-239", CONDITIONAL,
        says="exp(A) ≫ exp(B) is equivalent to A ≫ B",
        truth="true if A ≫ B means a large difference, as in S000-a.3: exp(A)/exp(B) is large if "
        "and only if A - B is large, for any A/B",
        check=two_share_by_difference,
        literal=much_larger_without_exp, witness={"A": 1001.0, "B": 991.0},
    ),
    Claim(
        "S000-e.ii.15", "233, 240", CONDITIONAL,
        says="the construction needs β² ≫ 0",
        check=length_needed,
        literal=query_matrix_finds_both_keys.gives("α_13", 1), witness={"beta": 1.0},
    ),
]
