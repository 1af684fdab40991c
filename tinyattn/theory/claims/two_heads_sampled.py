"""Chapter 7: question 1 (d) ii, the outputs of two heads over many samples of the factor y.

The scores of the second head do not depend on y. In the first head v_a has the largest weight
while y > 0, for large M nearly all. So most variance comes from y < 0, one draw in thirteen.
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, OPEN, TRUE, Claim
from tinyattn.theory.claims.multiplier import NEARLY_ALWAYS
from tinyattn.theory.finding import NEARLY
from tinyattn.theory.laws.noisy_keys import two_keys_alternate
from tinyattn.theory.laws.two_heads_sampled import (
    an_outlier_reverses_the_order,
    error_falls_like_one_over_m,
    ignored_draws_cause_the_variance,
    own_key_mostly_leads,
    variances_are_known,
)

# fmt: off
CLAIMS = [
    Claim(
        "S000-d.ii.2", "148", CONDITIONAL,
        says="averaging reduces the variance of c",
        truth="it is Var σ(My - ln(e^M + n - 2))·|v_a - w|² for one head, for two "
        "¼Var σ(My - ln(n - 1))·|v_a - v̄|²; 4 to 14 times less for n = 2 (w, v̄: weighted, plain "
        "mean of the others); but for large M it increases if v_a is near v_b and far from others",
        check=variances_are_known,
        literal=an_outlier_reverses_the_order.gives_at_most(
            "variance of two heads over that of one", 1
        ),
        witness={"M": 20.0, "distance": 10.0},
    ),
    Claim(
        "S001-d.ii.1", "165", TRUE,
        says="one head may give all weight to v_a or to v_b if k_a varies strongly",
        truth="it may, see S001-c.ii.9: P(η < α_a < 1 - η) = erf(ln((1 - η)/η)/M) for n = 2",
        check=two_keys_alternate,
    ),
    Claim(
        "S002-d.2.1", "13", CONDITIONAL,
        says="in spite of the noise we expect k_a·q_1 ≫ k_i·q_1",
        truth="P(k_a·q_1 < k_i·q_1) = Φ(√2(a_2/a_1 - 1)): 0.0786 at a_2 = 0, 0.0023 at -a_1, and 0 "
        "for a_1 = 0 > a_2 (own is a_1, ratio a_2/a_1)",
        check=own_key_mostly_leads,
        literal=own_key_mostly_leads.gives_at_least("share where k_a leads", NEARLY_ALWAYS),
        witness={"own": 20.0, "ratio": 0.0},
    ),
    Claim(
        "S002-d.2.2", "13", CONDITIONAL,
        says="k_b·q_2 ≫ k_i·q_2 for all i other than b",
        truth="k_a·q_2 = s a_4, so the noise changes the scores of the second head if a_4 ≠ 0 "
        "(own is a_3, ratio a_4/a_3)",
        check=own_key_mostly_leads,
        literal=own_key_mostly_leads.gives_at_least("share where k_b leads", NEARLY_ALWAYS),
        witness={"own": 20.0, "ratio": 0.5},
    ),
    Claim(
        "S002-d.2.3", "13", CONDITIONAL,
        says="so c_1 ≈ v_a",
        truth="even given s > 0 the mean of 1 - α_a is ln n/(e√π Φ(√2) M), for n = 2 0.156/M, "
        "and not e^-M",
        check=error_falls_like_one_over_m,
        literal=error_falls_like_one_over_m.gives_at_most("mean of 1 - α_a for y > 0", NEARLY),
        witness={"n": 2, "M": 10.0},
    ),
    Claim(
        "S004-d", "130", OPEN, of_question=True,
        says="one may ignore draws with k_a·q_1 < 0",
        truth="this is a permission; they are 0.0786 of all draws; for M → ∞ they cause all "
        "variance, 0.0181|v_a - v̄|², and a bias of 0.0393|v_a - v̄|; v̄ is the other values' mean",
        check=ignored_draws_cause_the_variance,
    ),
]
