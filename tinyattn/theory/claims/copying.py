"""Chapter 7: question 1 (a), copying one value: the meaning of `≫`, and the lead it needs."""

from __future__ import annotations

import math

from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, equal, fact
from tinyattn.theory.lab import Lab
from tinyattn.theory.laws.queries import a_key_as_query_copies, error_is_the_weight_missing
from tinyattn.theory.laws.weights import is_distribution, lead_decides, lead_suffices
from tinyattn.theory.queries import distribution_query

Numbers = tuple[float, ...]


def mixture(lab: Lab, weights: Numbers, values: Numbers) -> float:
    """The output of attention with these weights, for values that are numbers."""
    keys, column = lab.orthonormal(len(weights)), lab.tensor(values).reshape(-1, 1)
    return lab.output(distribution_query(keys, weights), keys, column).item()


def close_only_if_near_one(lab: Lab, values: Numbers, weights: Numbers) -> Finding:
    """If c is close to v_j, the first value, then α_j is near 1."""
    off = mixture(lab, weights, values) - values[0]
    return fact(
        abs(off) > NEARLY or weights[0] > 1 - NEARLY,
        "c is away from v_j, or α_j near 1",
        f"c - v_j is {off:.1g}, while α_j is {weights[0]:.0e}",
    )


def copies_if_near_one(lab: Lab, weights: Numbers, values: Numbers) -> Finding:
    """If the first weight is near 1, c is close to the first value."""
    return equal("c", mixture(lab, weights, values), values[0], 0.1)


def copies_another(lab: Lab, weights: Numbers, values: Numbers) -> Finding:
    """The first weight is near 1, so c is close to another value."""
    return equal("c", mixture(lab, weights, values), values[1], NEARLY)


# fmt: off
CLAIMS = [
    Claim(
        "S000-a.1", "42", CONDITIONAL,
        says="c is close to v_j only if α_j is near 1 and the other weights near 0",
        check=error_is_the_weight_missing,
        literal=close_only_if_near_one,
        witness={"values": (0.0, 1.0, -1.0), "weights": (1e-9, 0.5 - 5e-10, 0.5 - 5e-10)},
    ),
    Claim(
        "S000-a.2", "44", FALSE,
        says="if k_j·q is greater than every other score, α_j is almost 1",
        truth="for a weight of 1 - η the score must exceed the others by ln((n - 1)(1 - η)/η); "
        "line 48 of the sheet has ≫, see S000-a.3",
        check=lead_suffices,
        literal=lead_decides.gives("least α_j", 1), witness={"n": 2, "lead": 0.1},
    ),
    Claim(
        "S000-a.3", "48", CONDITIONAL,
        says="the condition is k_j·q ≫ k_i·q",
        check=lead_decides,
        literal=is_distribution.gives("weights", (1, 0)), witness={"scores": (0.02, 0.00002)},
    ),
    Claim(
        "S001-a.ii", "17", CONDITIONAL,
        says="key j has most of the weight if k_j·q ≫ k_i·q for all others",
        check=lead_decides,
        literal=lead_decides.gives("least α_j", 1), witness={"n": 10**5, "lead": 10.0},
    ),
    Claim(
        "S001-a.iii.1", "21", CONDITIONAL,
        says="if α_j ≫ α_i for each i, then α_j ≈ 1",
        truth="if α_j ≥ R α_i for each i, then α_j ≥ R/(R + n - 1), which can be attained; so "
        "α_j ≈ 1 needs R ≫ n - 1, or α_j ≫ Σ α_i",
        check=lead_decides,
        literal=lead_decides.gives("least α_j", 1),
        witness={"n": 10**5 + 1, "lead": math.log(1000)},
    ),
    Claim(
        "S001-a.iii.2", "21", CONDITIONAL,
        says="if α_j ≈ 1, then c ≈ v_j",
        truth="|c - v_j| ≤ (1 - α_j) max |v_i - v_j|: so the values must be bounded",
        check=error_is_the_weight_missing,
        literal=copies_if_near_one, witness={"weights": (0.999, 0.001), "values": (0.0, 1e6)},
    ),
    Claim(
        "S001-a.iv", "25", CONDITIONAL,
        says="if one key is similar to q and the others are uncorrelated, its value is copied",
        check=a_key_as_query_copies,
        literal=a_key_as_query_copies.gives("α_j", 1), witness={"n": 10, "lamda": 1.0},
    ),
    Claim(
        "S002-a.1", "7", TYPO,
        says="there is an i with k_i·q ≫ k_i·q for all j",
        truth="k_j·q is meant on the right: the largest score exceeds the others by the Δ of "
        "S000-a.3; if two scores are equal, no weight is near 1",
        check=lead_decides,
        literal=is_distribution.gives("weights", (1, 0)), witness={"scores": (9.0, 9.0)},
    ),
    Claim(
        "S002-a.2", "7", FALSE,
        says="if scores are not negative, it is enough that the others are slightly smaller",
        truth="the sign cannot matter, as softmax(s + c) = softmax(s); the score must exceed the "
        "others by ln((n - 1)(1 - η)/η), which may be small beside the scores",
        check=lead_suffices,
        literal=is_distribution.gives("weights", (1, 0)), witness={"scores": (10.0, 9.9)},
    ),
    Claim(
        "S004-a.ii.2", "36", CONDITIONAL,
        says="a key has nearly all weight if its score is large and all others are zero",
        truth="α_j is then 1/(1 + (n - 1)e^-lead), so the lead must be large enough for n keys; "
        "the others need not be zero",
        check=lead_decides,
        literal=lead_decides.gives("least α_j", 1), witness={"n": 100, "lead": 1.0},
    ),
    Claim(
        "S004-a.iii", "40", TYPO,
        says="the weight is on key j, so c ≈ v_i",
        truth="c ≈ v_j is meant, with an error of at most (1 - α_j) max |v_i - v_j|",
        check=error_is_the_weight_missing,
        literal=copies_another, witness={"weights": (0.9999, 0.0001), "values": (1.0, 0.0)},
    ),
    Claim(
        "S004-a.iv", "44", CONDITIONAL,
        says="if a score is clearly above the others, the value of its key is copied",
        check=lead_suffices,
        literal=lead_decides.gives("least α_j", 1), witness={"n": 50_257, "lead": 10.0},
    ),
]
