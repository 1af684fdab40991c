"""Chapter 7: question 1 (c) ii, one head's weights for the key k_a = y μ_a with a given factor y.

With the query M(μ_a + μ_b) the scores are y M, M and 0.
"""

from __future__ import annotations

import math

from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.laws.noisy_keys import a_factor_above_one_leads, a_factor_scales_one_score
from tinyattn.theory.logit_normal import logistic

MUCH = 100
"""The smallest ratio that is called ≫."""


def of_two_keys(n: int, M: float, y: float) -> float:
    """α_a as if k_a and k_b were the only keys; 1 minus it is α_b."""
    return logistic(M * (y - 1))


# fmt: off
CLAIMS = [
    Claim(
        "S000-c.ii.5", "96-100", TYPO,
        says="α_i = k_i·q, so that α_b ≈ M",
        truth="these are the scores: y M, M and 0; α is their softmax, as in line 108",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_b", lambda n, M, y: M),
        witness={"n": 3, "M": 10.0, "y": 1.0},
    ),
    Claim(
        "S000-c.ii.6", "106-108", CONDITIONAL,
        says="c = α_a v_a + α_b v_b, where the denominators are e^{yM} + e^M",
        truth="the denominator is e^{yM} + e^M + n - 2; without n - 2 the weights are too large "
        "by a share of at most (n - 2)e^-M",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_a", of_two_keys),
        witness={"n": 1000, "M": 3.0, "y": 1.0},
    ),
    Claim(
        "S000-c.ii.7", "114", CONDITIONAL,
        says="y → 0 gives c = v_b",
        truth="at y = 0 α_a is 1/(n - 1 + e^M): M → ∞ is needed, not only y → 0",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_b", 1), witness={"n": 1000, "M": 5.0, "y": 0.0},
    ),
    Claim(
        "S000-c.ii.8", "118-125", CONDITIONAL,
        says="y → 2 gives c = v_a",
        truth="at y = 2 α_b is 1/(1 + e^M + (n - 2)e^-M): again M → ∞ is needed",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_a", 1), witness={"n": 1000, "M": 3.0, "y": 2.0},
    ),
    Claim(
        "S000-c.ii.9", "125", TYPO,
        says="for y → 2 the weight of v_b is ∞/∞², which is 1/∞²",
        truth="it is 1/∞: α_b is about e^-M, as ln(α_a/α_b) = M(y - 1)",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_b", lambda n, M, y: math.exp(-2 * M), 1e-6),
        witness={"n": 2, "M": 10.0, "y": 2.0},
    ),
    Claim(
        "S001-c.ii.3", "119-123", TRUE,
        says="the scores are y M, M and 0",
        truth="this is exact for α = 0; else the noise adds a deviation of M√(2α) to each",
        check=a_factor_scales_one_score,
    ),
    Claim(
        "S001-c.ii.4", "125", CONDITIONAL,
        says="α_a = 1/(1 + e^{M(1 - y)})",
        truth="true for n = 2; otherwise (n - 2)e^{-My} is missing in the denominator",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_a", of_two_keys),
        witness={"n": 100, "M": 2.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.5", "127", CONDITIONAL,
        says="α_b = 1/(1 + e^{M(y - 1)})",
        truth="true for n = 2; otherwise (n - 2)e^-M is missing in the denominator",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_b", lambda n, M, y: 1 - of_two_keys(n, M, y)),
        witness={"n": 100, "M": 2.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.6", "129", CONDITIONAL,
        says="α_i = 0 for all others",
        truth="0 < α_i ≤ 1/(e^M + n - 2), and there are n - 2 such weights",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("Σ α_i", 0),
        witness={"n": 1000, "M": 5.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.7", "133-135", CONDITIONAL,
        says="y → 1.5 gives α_a → 1 and c = v_a",
        truth="for two keys α_a is σ(M/2) at y = 1.5: 0.99 needs M = 9.2",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_a", 1), witness={"n": 2, "M": 2.0, "y": 1.5},
    ),
    Claim(
        "S001-c.ii.8", "137-139", CONDITIONAL,
        says="y < 1 gives α_a → 0 and c = v_b",
        truth="for each fixed y, α_a ≤ e^(-M(1 - y)); at y = 1 - 1/M α_a stays 1/(1 + e)",
        check=a_factor_scales_one_score,
        literal=a_factor_scales_one_score.gives("α_b", 1),
        witness={"n": 2, "M": 1000.0, "y": 0.999},
    ),
    Claim(
        "S002-c.2.1", "11", CONDITIONAL,
        says="α_a and α_b are still much larger than the others",
        truth="true for α_b; but α_a/α_i = e^(y c_1 - c_2) for a factor y (s in the sheet), which "
        "is below 1 if y < c_2/c_1, for c_2 = 0 in 7.9 % of draws",
        check=a_factor_above_one_leads,
        literal=a_factor_above_one_leads.gives_at_least("ln α_a/α_i", math.log(MUCH)),
        witness={"n": 3, "c1": 20.0, "c2": 0.0, "y": -0.5},
    ),
]
