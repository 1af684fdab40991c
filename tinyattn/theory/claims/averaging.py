"""Chapter 7: question 1 (b) ii, the mean of two values: the lead M that it needs."""

from __future__ import annotations

import numpy as np

from tinyattn.theory.claim import CONDITIONAL, TYPO, Claim
from tinyattn.theory.claims.copying import Numbers, mixture
from tinyattn.theory.finding import EXACT, NEARLY, Finding, fact
from tinyattn.theory.lab import Lab, by_hand
from tinyattn.theory.laws.queries import error_measures_weights, two_keys_average
from tinyattn.theory.laws.weights import (
    is_distribution,
    lead_for_two,
    never_exactly_half,
    pair_between_bounds,
    two_ahead,
    two_share_by_difference,
)


def near_only_if_half_each(lab: Lab, values: Numbers, weights: Numbers) -> Finding:
    """If c is close to ½(v_a + v_b), the first two values, then α_a and α_b are near ½."""
    off = mixture(lab, weights, values) - sum(values[:2]) / 2
    return fact(
        abs(off) > NEARLY or max(abs(w - 0.5) for w in weights[:2]) < NEARLY,
        "c is away from ½(v_a + v_b), or α_a and α_b near ½",
        f"c - ½(v_a + v_b) is {off:.1g}, while α_a is {weights[0]:.0e}",
    )


def is_not_half(lab: Lab, n: int, M: float) -> Finding:
    """α_a is not ½."""
    weight = lab.weights(two_ahead(n, M), 1).item()
    return fact(weight != 0.5, "α_a is not ½", "α_a is ½ exactly")


def without_exponentials(scores: Numbers) -> np.ndarray:
    """e^s_i/(Σ α_j + e^s_a + e^s_b), with the weights α_j of all keys but a and b."""
    powers = np.exp(scores)
    weights: np.ndarray = powers / (by_hand(scores)[2:].sum() + powers[:2].sum())
    return weights


# fmt: off
CLAIMS = [
    Claim(
        "S000-b.1", "52", CONDITIONAL,
        says="c = ½(v_a + v_b) needs α_a and α_b near ½ and the others near 0",
        check=error_measures_weights,
        literal=near_only_if_half_each,
        witness={"values": (-1.0, 1.0, 0.0), "weights": (1e-9, 1e-9, 1 - 2e-9)},
    ),
    Claim(
        "S000-b.2", "56", TYPO,
        says="α_a ≈ α_b ≈ 1",
        truth="both are ½, as in line 52: the sum of all weights is 1, so the smaller of two is at "
        "most ½",
        check=two_share_by_difference,
        literal=is_distribution.gives("weights", (1, 1, 0, 0)),
        witness={"scores": (20.0, 20.0, 0.0, 0.0)},
    ),
    Claim(
        "S000-b.3", "57", CONDITIONAL,
        says="k_a·q ≈ k_b·q ≫ k_i·q is the condition",
        check=two_share_by_difference,
        literal=is_distribution.gives("weights", (0.5, 0.5, 0)),
        witness={"scores": (1001.0, 1000.0, 0.0)},
    ),
    Claim(
        "S000-b.5", "59", TYPO,
        says="after the softmax the weight of the wanted value is 1, and the others are 0",
        truth="two are wanted, with ½ each: exactly (1 - η)/2 if M = ln((n - 2)(1 - η)/(2η))",
        check=lead_for_two,
        literal=lead_for_two.gives("α_a, α_b", (1, 1)), witness={"n": 10, "eta": 1e-6},
    ),
    Claim(
        "S000-b.6", "63, 65", CONDITIONAL,
        says="q = M(k_a + k_b) with a large positive integer M averages v_a and v_b",
        check=two_keys_average,
        literal=never_exactly_half.gives("α_a", 0.5), witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S001-b.ii.1", "90", CONDITIONAL,
        says="α_a = α_b = ½, and α_i = 0 for all others",
        check=never_exactly_half,
        literal=never_exactly_half.gives("α_a", 0.5, EXACT), witness={"n": 4, "M": 5.0},
    ),
    Claim(
        "S001-b.ii.2", "94, 96", TYPO,
        says="α_a = e^s_a/(Σ α_j + e^s_a + e^s_b), where j runs over the others",
        truth="exponentials are meant, as in line 125: Σ e^s_j + e^s_a + e^s_b",
        check=is_distribution,
        literal=is_distribution.gives("weights", without_exponentials),
        witness={"scores": (0.0, 0.0, 0.0, 0.0)},
    ),
    Claim(
        "S001-b.ii.3", "98-100", CONDITIONAL,
        says="q = M(k_a + k_b) with M ≫ 0 averages v_a and v_b",
        check=two_keys_average,
        literal=never_exactly_half.gives("α_a", 0.5), witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S002-b.1", "8", TYPO,
        says="the condition is k_a·q = k_b·q ≫ k_i (without q on the right)",
        truth="k_i·q is meant: 10 exceeds all elements of a unit vector, but a third score may be "
        "20; with a lead of Δ, 1/(2 + (n - 2)e^-Δ) ≤ α_a ≤ 1/(2 + e^-Δ)",
        check=pair_between_bounds,
        literal=is_distribution.gives("weights", (0.5, 0.5, 0)),
        witness={"scores": (10.0, 10.0, 20.0)},
    ),
    Claim(
        "S004-b.ii.3", "109", CONDITIONAL,
        says="exp(0) is negligible compared with exp(β)",
        truth="there are n - 2 such terms: their weight is η if β, here M, is "
        "ln((n - 2)(1 - η)/(2η))",
        check=lead_for_two,
        literal=never_exactly_half.gives_at_most("weight of the others", NEARLY),
        witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S004-b.ii.4", "111", CONDITIONAL,
        says="α_a = e^β/(n - 2 + 2e^β), about ½ for β ≫ 0",
        truth="the equality is exact for any real β, here M; α_a is about ½ if M - ln n ≫ 1",
        check=two_keys_average,
        literal=never_exactly_half.gives("α_a", 0.5), witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S004-b.ii.5", "99", CONDITIONAL, of_question=True,
        says="the softmax never averages exactly",
        check=never_exactly_half, literal=is_not_half, witness={"n": 2, "M": 3.0},
    ),
]
