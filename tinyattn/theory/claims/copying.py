"""Claims: question 1 (a), copying one value. What `≫` has to mean, and what a large score buys.

Next: averaging two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyattn import ops
from tinyattn.attention.core import attend
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals, Whole
from tinyattn.theory.queries import averaging_weight, copying_query, query_of
from tinyattn.theory.weights import lead_needed, weight_bounds


def leading(lab: Lab, n: int, gap: float) -> list[float]:
    """Random scores of which the first leads the second by `gap`."""
    rivals = sorted(lab.rng.uniform(-20, 0, n - 1).tolist(), reverse=True)
    return [rivals[0] + gap, *rivals]


def top_weight(lab: Lab, scores: Sequence[float]) -> float:
    """The weight of the first score."""
    return float(ops.softmax(lab.tensor(scores)).numpy()[0])


# What is true --------------------------------------------------------------------------------


def error_is_the_weight_missing(lab: Lab, n: int, gap: float) -> Finding:
    """c - v_j is the missing weight times (mean of the others, by their weights - v_j)."""
    scores, values = leading(lab, n, gap), lab.normal(n, 3)
    keys = lab.orthonormal(n)
    c, weights = (t.numpy() for t in attend(query_of(keys, scores), keys, values))
    v, missing = values.numpy(), 1 - weights[0]
    others = weights[1:] @ v[1:] / missing
    distances = np.linalg.norm(v[1:] - v[0], axis=1)
    return every(
        equal("c - v_j", c - v[0], missing * (others - v[0])),
        at_most("|c - v_j|", np.linalg.norm(c - v[0]), missing * distances.max()),
    )


def gap_decides(lab: Lab, n: int, gap: float) -> Finding:
    """The top weight lies between the bounds, and both can be reached."""
    low, high = weight_bounds(gap, n)
    top = top_weight(lab, leading(lab, n, gap))
    return every(
        at_least("top weight", top, low),
        at_most("top weight", top, high),
        equal("all rivals tied", top_weight(lab, [gap, *[0.0] * (n - 1)]), low),
        equal("rivals far behind", top_weight(lab, [gap, 0.0, *[-800.0] * (n - 2)]), high),
    )


def lead_suffices(lab: Lab, n: int, error: float) -> Finding:
    """The stated lead leaves exactly that error when all rivals tie, and less otherwise."""
    gap = lead_needed(n, error)
    if gap < 0:  # more error is allowed than n equal weights have
        return fact(1 - 1 / n < error, "no lead needed", "no lead needed, and yet not enough")
    return every(
        equal("all rivals tied", top_weight(lab, [gap, *[0.0] * (n - 1)]), 1 - error),
        at_least("top weight", top_weight(lab, leading(lab, n, gap)), 1 - error),
    )


def ratio_bounds_weight(lab: Lab, n: int, ratio: float) -> Finding:
    """α_j ≥ R α_i for all i gives α_j ≥ R/(R + n - 1), reached when the others tie."""
    bound = ratio / (ratio + n - 1)
    return every(
        equal("others tied", top_weight(lab, [math.log(ratio), *[0.0] * (n - 1)]), bound),
        at_least("α_j", top_weight(lab, leading(lab, n, math.log(ratio))), bound),
    )


def copying_weight(lab: Lab, n: int, size: float) -> Finding:
    """q = λ k_j with orthonormal keys."""
    keys, j = lab.orthonormal(n), int(lab.rng.integers(n))
    _, weights = attend(copying_query(keys, j, size), keys, lab.normal(n, 2))
    return equal("α_j", weights.numpy()[j], averaging_weight(n, size, chosen=1))


def only_differences_count(lab: Lab, scores: tuple[float, ...], shift: float) -> Finding:
    """Adding a number to all scores changes nothing, so their sign cannot matter."""
    s = lab.tensor(scores)
    return equal("weights", ops.softmax(s + shift), ops.softmax(s))


# What the sheets say -------------------------------------------------------------------------


def almost_one(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """The first score is the largest, so its weight is almost 1."""
    return equal("α_j", top_weight(lab, scores), 1.0, NEARLY)


def rivals_at(lab: Lab, n: int, gap: float) -> Finding:
    """The same, with n - 1 rivals that tie."""
    return almost_one(lab, (gap, *[0.0] * (n - 1)))


# fmt: off
CLAIMS = [
    Claim(
        "S000-a.1", "42", CONDITIONAL,
        says="c is close to v_j only if α_j is near 1 and the other weights near 0",
        truth="sufficient always: |c - v_j| ≤ (1 - α_j) max |v_i - v_j|; necessary only if v_j is "
        "outside the hull of the other values",
        under_test=(attend, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "gap": Real(0, 20)},
        literal=lambda lab, values, weights: fact(
            abs(ops.matmul(lab.tensor(weights), lab.tensor(values)).item() - values[0]) > NEARLY,
            "c is away from v_j",
            f"c = v_j, while α_j is {weights[0]:.0e}",
        ),
        witness={"values": (0.0, 1.0, -1.0), "weights": (1e-9, 0.5 - 5e-10, 0.5 - 5e-10)},
    ),
    Claim(
        "S000-a.2", "44", FALSE,
        says="if k_j·q exceeds every other score, α_j is almost 1",
        truth="the lead must be at least ln((n - 1)(1 - η)/η) for a weight of 1 - η",
        under_test=(ops.softmax, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "error": Real(1e-6, 0.49)},
        literal=almost_one, witness={"scores": (0.1, 0.0)},
    ),
    Claim(
        "S000-a.3", "48", CONDITIONAL,
        says="the condition is k_j·q ≫ k_i·q",
        truth="≫ is a difference, not a ratio: with a lead of Δ, "
        "1/(1 + (n - 1)e^-Δ) ≤ α_j ≤ 1/(1 + e^-Δ)",
        under_test=(ops.softmax, weight_bounds),
        corrected=gap_decides, domain={"n": Whole(2, 40), "gap": Real(0, 40)},
        literal=almost_one, witness={"scores": (0.02, 0.00002)},
    ),
    Claim(
        "S001-a.ii", "17", CONDITIONAL,
        says="weight gathers on j when k_j·q ≫ k_i·q for all others",
        truth="as S000-a.3: a matter of differences",
        under_test=(ops.softmax, weight_bounds),
        corrected=gap_decides, domain={"n": Whole(2, 40), "gap": Real(0, 40)},
        literal=rivals_at, witness={"n": 10**6, "gap": 10.0},
    ),
    Claim(
        "S001-a.iii.1", "21", FALSE,
        says="if α_j ≫ α_i for each i, then α_j ≈ 1",
        truth="α_j ≥ R α_i for each i gives α_j ≥ R/(R + n - 1) and no more; it takes α_j ≫ Σ α_i",
        under_test=(ops.softmax,),
        corrected=ratio_bounds_weight, domain={"n": Whole(2, 60), "ratio": Real(1, 1e6)},
        literal=lambda lab, n, ratio: rivals_at(lab, n, math.log(ratio)),
        witness={"n": 10**6 + 1, "ratio": 1000.0},
    ),
    Claim(
        "S001-a.iii.2", "21", CONDITIONAL,
        says="α_j ≈ 1 makes c ≈ v_j",
        truth="|c - v_j| ≤ (1 - α_j) max |v_i - v_j|: the values must be bounded",
        under_test=(attend, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "gap": Real(0, 20)},
        literal=lambda lab, weights, values: equal(
            "c", ops.matmul(lab.tensor(weights), lab.tensor(values)), values[0], 0.1
        ),
        witness={"weights": (0.999, 0.001), "values": (0.0, 1e6)},
    ),
    Claim(
        "S001-a.iv", "25", CONDITIONAL,
        says="a key similar to q, with the others uncorrelated, has its value copied",
        truth="orthonormal keys, q = λ k_j: α_j = 1/(1 + (n - 1)e^-λ), so λ must be large",
        under_test=(copying_query, averaging_weight),
        corrected=copying_weight, domain={"n": Whole(1, 12), "size": Real(0, 30)},
        literal=rivals_at, witness={"n": 10, "gap": 1.0},
    ),
    Claim(
        "S002-a.1", "7", TYPO,
        says="there is an i with k_i·q ≫ k_i·q for all j",
        truth="k_j·q stands on the right: the largest score leads, by the gap of S000-a.3",
        under_test=(ops.softmax, weight_bounds),
        corrected=gap_decides, domain={"n": Whole(2, 40), "gap": Real(0, 40)},
        literal=lambda lab, scores: fact(
            any(s > s for s in scores), "a score exceeds itself", "no score exceeds itself"
        ),
        witness={"scores": (9.0, 0.0, -3.0)},
    ),
    Claim(
        "S002-a.2", "7", FALSE,
        says="if scores are not negative, rivals that are just a little smaller will do",
        truth="the sign of scores cannot matter: softmax(s + c) = softmax(s); the lead must be "
        "ln((n - 1)(1 - η)/η)",
        under_test=(ops.softmax,),
        corrected=only_differences_count,
        domain={"scores": Reals(-50, 50, 1, 20), "shift": Real(-100, 100)},
        literal=almost_one, witness={"scores": (10.0, 9.9)},
    ),
    Claim(
        "S004-a.ii.2", "36", CONDITIONAL,
        says="a large product with one key and zero with the rest makes its weight the largest by "
        "far",
        truth="α_j = 1/(1 + (n - 1)e^-λ); what counts is the gap, not that the others are zero",
        under_test=(copying_query, averaging_weight),
        corrected=copying_weight, domain={"n": Whole(1, 12), "size": Real(0, 30)},
        literal=rivals_at, witness={"n": 100, "gap": 1.0},
    ),
    Claim(
        "S004-a.iii", "40", TYPO,
        says="the weight is on key j, so c ≈ v_i",
        truth="c ≈ v_j, up to (1 - α_j) max |v_i - v_j|",
        under_test=(attend, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "gap": Real(0, 20)},
        literal=lambda lab, values, gap: equal(
            "c",
            attend(lab.tensor([gap]), lab.tensor([[1.0], [0.0]]), lab.tensor(values))[0],
            values[1],
            NEARLY,
        ),
        witness={"values": ((1.0,), (0.0,)), "gap": 10.0},
    ),
    Claim(
        "S004-a.iv", "44", CONDITIONAL,
        says="a score clearly above the others copies the value",
        truth="with a lead of ln((n - 1)(1 - η)/η) the weight missing is η at most",
        under_test=(ops.softmax, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "error": Real(1e-6, 0.49)},
        literal=rivals_at, witness={"n": 50_257, "gap": 10.0},
    ),
]
