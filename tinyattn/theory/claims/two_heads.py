"""Chapter 7: question 1 (d), two heads, one for each value: q_1 = M μ_a, q_2 = M μ_b.

Without noise their error is larger than that of one head, but they tolerate more noise.
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import NEARLY
from tinyattn.theory.laws.two_heads import (
    each_head_keeps_a_lead,
    heads_are_averaged,
    no_value_has_all,
    only_a_difference_copies,
    only_the_sum_is_determined,
    two_heads_err_more,
)
from tinyattn.theory.laws.weights import is_distribution, lead_decides

# fmt: off
CLAIMS = [
    Claim(
        "S000-d.i.1", "133-135", FALSE,
        says="c = ½(c_1 + c_2) = ½(v_a + v_b), so c_1 = v_a and c_2 = v_b",
        truth="it is a good choice, but only c_1 + c_2 = v_a + v_b follows; for t = 0 both heads "
        "have ½ for v_a and for v_b",
        check=only_the_sum_is_determined,
        literal=only_the_sum_is_determined.gives("α_a in the first head", 1),
        witness={"n": 3, "t": 0.0, "rest": 1e-9},
    ),
    Claim(
        "S000-d.i.2", "139-140", TYPO,
        says="c_1 = v_a needs k_a·q_1 ≫ k_i·q_1 for i other than a and b",
        truth="all i other than a are meant, as in the next step, q_1 = M μ_a: the lead over k_b "
        "is needed, too",
        check=lead_decides,
        literal=is_distribution.gives("weights", (1, 0, 0, 0)),
        witness={"scores": (20.0, 20.0, 0.0, 0.0)},
    ),
    Claim(
        "S000-d.i.3", "139-140", CONDITIONAL,
        says="q_1 = M μ_a, q_2 = M μ_b give c ≈ ½(v_a + v_b)",
        check=two_heads_err_more,
        literal=two_heads_err_more.gives_at_most("weight of the others", NEARLY),
        witness={"n": 1000, "M": 5.0},
    ),
    Claim(
        "S000-d.ii.1", "148", TRUE,
        says="the output is always the average of c_1 and c_2",
        check=heads_are_averaged,
    ),
    Claim(
        "S001-d.i", "151-160", CONDITIONAL,
        says="q_1 = M μ_a copies v_a, q_2 = M μ_b copies v_b",
        truth="α = 1/(1 + (n - 1)e^-M) without noise; with noise of norm δ the lead is at least "
        "M(1 - 2δ), so for δ well below ½ M may be arbitrarily large",
        check=each_head_keeps_a_lead,
        literal=each_head_keeps_a_lead.gives("least α of both heads", (1, 1)),
        witness={"n": 100, "M": 3.0, "delta": 0.0},
    ),
    Claim(
        "S001-d.ii.2", "167", TRUE,
        says="two heads do not give all weight to one value",
        truth="a value has at most ½ + 1/(2n) if y ≥ 0, and the question allows to ignore other "
        "draws; for y < 0 v_b can have up to ½ + ½/(n - 1), which is 1 for n = 2",
        check=no_value_has_all,
    ),
    Claim(
        "S002-d.1", "12", CONDITIONAL,
        says="q_1 = a_1 μ_a + a_2 Σ μ_i + x copies v_a if a_1 ≫ a_2",
        check=only_a_difference_copies,
        literal=only_a_difference_copies.gives("α_a", 1),
        witness={"n": 10, "a_1": 1.0, "a_2": 0.001, "x": 0.0},
    ),
]
