"""Chapter 7: question 1 (e) i, three inputs made of four orthogonal vectors, Q = K = V = I.

Only answer sheet 000 has question 1 (e).
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.finding import NEARLY
from tinyattn.theory.laws.construction import (
    no_addition_copies,
    only_a_product_scores,
    sum_is_copied,
    x_2_nearly_copies_itself,
)

# fmt: off
CLAIMS = [
    Claim(
        "S000-e.i.1", "156", TRUE,
        says="c_2 = α_21 v_1 + α_22 v_2 + α_23 v_3",
        truth="this is the definition; α_2j is the softmax over j of k_j·q_2",
        check=only_a_product_scores,
    ),
    Claim(
        "S000-e.i.2", "158", TRUE,
        says="x_2 is orthogonal to x_1 and x_3",
        truth="this is exact, in 4 dimensions or more; x_1 and x_3 share u_b, so x_1·x_3 = β²",
        check=x_2_nearly_copies_itself,
    ),
    Claim(
        "S000-e.i.3", "158", CONDITIONAL,
        says="the other scores are zero, so c_2 is approximately α_22 v_2",
        truth="a score of 0 has a weight proportional to e⁰, as in lines 160-161: α_21 = α_23 = "
        "1/(2 + e^β²), small if e^β² ≫ 2",
        check=x_2_nearly_copies_itself,
        literal=x_2_nearly_copies_itself.gives("α_2", (0, 1, 0)), witness={"beta": 0.5},
    ),
    Claim(
        "S000-e.i.4", "160-161", CONDITIONAL,
        says="c_2 ≈ u_a",
        check=x_2_nearly_copies_itself,
        literal=x_2_nearly_copies_itself.gives_at_most("|c_2 - u_a|/β", NEARLY),
        witness={"beta": 1.0},
    ),
    Claim(
        "S000-e.i.5", "163, 167", TRUE,
        says="adding u_d or u_c to x_2 cannot make c_2 a copy of u_b",
        check=no_addition_copies,
    ),
    Claim(
        "S000-e.i.6", "165", CONDITIONAL,
        says="if u_d or u_c is added to x_2, c_2 = u_a + u_d or u_a + u_c",
        check=sum_is_copied,
        literal=sum_is_copied.gives_at_most("|c_2 - x_2|/β", NEARLY),
        witness={"beta": 1.0, "added": "u_d"},
    ),
]
