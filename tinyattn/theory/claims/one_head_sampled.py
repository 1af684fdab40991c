"""Chapter 7: question 1 (c) ii, the output of one head over many samples of the factor y.

The query M(μ_a + μ_b) multiplies the noise in y by M, so c is near v_a in some draws and near v_b
in others; the share of draws in between falls only like 1/M. A query with negative scores for the
other keys does not depend on y.
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.laws.noisy_keys import (
    a_factor_above_one_leads,
    repelling_ignores_norms,
    two_keys_alternate,
)
from tinyattn.theory.laws.queries import only_a_difference_averages

VARIES = 0.1
"""The variance of α_a that is called strong; the largest possible one is ¼."""

# fmt: off
CLAIMS = [
    Claim(
        "S000-c.ii.10", "127", TRUE,
        says="c can vary strongly with the sample",
        truth="if n = 2, ¼ - 1/(√π M) ≤ Var α_a ≤ ¼, and α_a has two modes if and only if M > 2; "
        "for any n logit α_a ~ N(M - ln(e^M + n - 2), M²/2), and c is between v_a and a mean of "
        "others, see N-2",
        check=two_keys_alternate,
    ),
    Claim(
        "S000-c.ii.11", "127", CONDITIONAL,
        says="in this case a single head is not robust to the noise",
        truth="with that query it is not; q = -L Σ μ_i over the other keys has α_a = α_b = "
        "1/(2 + (n - 2)e^-L) for any norms of k_a and k_b",
        check=repelling_ignores_norms,
        literal=repelling_ignores_norms.gives_at_least("variance of α_a for random y", VARIES),
        witness={"n": 6, "L": 20.0, "y_a": 1.0, "y_b": 1.0},
    ),
    Claim(
        "S001-c.ii.9", "141", TRUE,
        says="v_a or v_b may have all weight in c",
        truth="this is right, and more frequent for larger M: P(η < α_a < 1 - η) = "
        "erf(ln((1 - η)/η)/M) for n = 2",
        check=two_keys_alternate,
    ),
    Claim(
        "S002-c.2.2", "11", TRUE,
        says="α_a = α_b no longer holds",
        truth="true with probability 1: ln α_a/α_b = c_1(y - 1), which is 0 only for y = 1 (y is s "
        "in the sheet)",
        check=a_factor_above_one_leads,
    ),
    Claim(
        "S002-c.2.5", "11", CONDITIONAL,
        says="c ≈ ½(v_a + v_b) at s = 1, the mean of s",
        truth="at s = 1 α_a = α_b = 1/(2 + (n - 2)e^-M), M = c_1 - c_2: about ½ if M - ln n ≫ 1; "
        "for n = 2 E α_a = ½, too, see S000-c.ii.10",
        check=only_a_difference_averages,
        literal=only_a_difference_averages.gives("α_a, α_b", (0.5, 0.5)),
        witness={"n": 10, "c1": 0.01, "c2": 0.0001, "t": 0.0},
    ),
    Claim(
        "S002-c.2.6", "11", TRUE,
        says="c is closer to the value whose key has the larger norm",
        truth="true for s > -1: the key of larger norm has the larger weight; in a share of "
        "Φ(-2√2) = 0.0023 of draws s < -1, and k_a has the larger norm but less weight (the check "
        "calls s y)",
        check=a_factor_above_one_leads,
    ),
]
