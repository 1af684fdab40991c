"""Chapter 7: question 1 (a), copying one value: the meaning of `≫`, and the lead it needs."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole, by_hand
from tinyattn.theory.queries import averaging_weight, copying_query, distribution_query, query_of
from tinyattn.theory.weights import lead_needed, weight_bounds

OTHERS_EQUAL = "if the other scores are equal, α_j"


def leading(lab: Lab, n: int, lead: float) -> list[float]:
    """Random scores; the first exceeds the second by `lead`."""
    others = sorted(lab.rng.uniform(-20, 0, n - 1).tolist(), reverse=True)
    return [others[0] + lead, *others]


def mixture(lab: Lab, weights: tuple[float, ...], values: tuple[float, ...]) -> float:
    """The output of attention with these weights, for values that are numbers."""
    keys, column = lab.orthonormal(len(weights)), lab.tensor(values).reshape(-1, 1)
    return lab.output(distribution_query(keys, weights), keys, column).item()


# What is true --------------------------------------------------------------------------------


def error_is_the_weight_missing(lab: Lab, n: int, lead: float) -> Finding:
    """c - v_j is 1 - α_j times (weighted mean of the others - v_j).

    For v_j outside the convex hull of the others |c - v_j| also bounds 1 - α_j: by a least singular
    value, or by the distance of the hull, √(1 + 1/(n - 1)) for orthonormal values.
    """
    scores, values = leading(lab, n, lead), lab.normal(n, n + 2)
    keys, corners = lab.orthonormal(n), lab.orthonormal(n)
    c, weights = (t.numpy() for t in lab.attend(query_of(keys, scores), keys, values))
    v, missing = values.numpy(), 1 - weights[0]
    error = np.linalg.norm(c - v[0])
    others = weights[1:] @ v[1:] / weights[1:].sum()
    stretch = np.linalg.svd(v[1:] - v[0], compute_uv=False)[-1]
    off = lab.attend(query_of(keys, scores), keys, corners)[0] - corners[0]
    return every(
        equal("weights", weights, by_hand(scores)),
        equal("c - v_j", c - v[0], missing * (others - v[0])),
        at_most("|c - v_j|", error, missing * np.linalg.norm(v[1:] - v[0], axis=1).max()),
        at_least("|c - v_j|", error, stretch * np.linalg.norm(weights[1:])),
        at_most("1 - α_j", missing, np.linalg.norm(off.numpy()) / math.sqrt(1 + 1 / (n - 1))),
    )


def lead_decides(lab: Lab, n: int, lead: float) -> Finding:
    """The largest weight is between the bounds, and both can be attained."""
    low, high = weight_bounds(lead, n)
    top = lab.weights(leading(lab, n, lead), 1).item()
    return every(
        at_least("α_j", top, low),
        at_most("α_j", top, high),
        equal(OTHERS_EQUAL, lab.weights([lead, *[0.0] * (n - 1)], 1).item(), low),
        equal("only one rival: α_j", lab.weights([lead, 0.0, *[-800.0] * (n - 2)], 1).item(), high),
    )


def lead_suffices(lab: Lab, n: int, eta: float) -> Finding:
    """With the stated lead 1 - α_j is η if all other scores are equal, and less otherwise."""
    lead = lead_needed(n, eta)
    return every(
        equal(OTHERS_EQUAL, lab.weights([lead, *[0.0] * (n - 1)], 1).item(), 1 - eta),
        at_least("α_j", lab.weights(leading(lab, n, lead), 1).item(), 1 - eta),
    )


def only_the_lead_counts(lab: Lab, n: int, eta: float, shift: float) -> Finding:
    """Softmax does not change if a number is added to all scores; only leads matter."""
    s = lab.rng.uniform(-50, 50, n)
    return every(
        lead_suffices(lab, n, eta),
        equal("weights", lab.weights(lab.tensor(s) + shift), by_hand(s)),
    )


def ratio_bounds_weight(lab: Lab, n: int, R: float) -> Finding:
    """If α_j ≥ R α_i for all i, then α_j ≥ R/(R + n - 1), attained if all others are equal."""
    bound, equal_ones = R / (R + n - 1), [0.0] * (n - 1)
    return every(
        equal(OTHERS_EQUAL, lab.weights([math.log(R), *equal_ones], 1).item(), bound),
        at_least("α_j", lab.weights(leading(lab, n, math.log(R)), 1).item(), bound),
    )


def copying_weight(lab: Lab, n: int, lamda: float) -> Finding:
    """q = λ k_j with orthonormal keys."""
    keys, j = lab.orthonormal(n), int(lab.rng.integers(n))
    _, weights = lab.attend(copying_query(keys, j, lamda), keys, lab.normal(n, 2))
    exact = 1 / (1 + (n - 1) * math.exp(-lamda))
    return every(
        equal("α_j", weights.numpy()[j], exact),
        equal("the formula", averaging_weight(n, lamda, 1), exact),
    )


# What the sheets say -------------------------------------------------------------------------


def close_only_if_near_one(
    lab: Lab, values: tuple[float, ...], weights: tuple[float, ...]
) -> Finding:
    """If c is close to v_j, the first value, then α_j is near 1."""
    c = mixture(lab, weights, values)
    return fact(
        abs(c - values[0]) > NEARLY or weights[0] > 1 - NEARLY,
        "c is away from v_j, or α_j near 1",
        f"c - v_j is {c - values[0]:.1g}, while α_j is {weights[0]:.0e}",
    )


def almost_one(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """The first score is the largest, so its weight is almost 1."""
    return equal("α_j", lab.weights(scores, 1).item(), 1.0, NEARLY)


def rivals_tie(lab: Lab, n: int, lead: float) -> Finding:
    """The same, with n - 1 other scores that are equal."""
    return almost_one(lab, (lead, *[0.0] * (n - 1)))


# fmt: off
CLAIMS = [
    Claim(
        "S000-a.1", "42", CONDITIONAL,
        says="c is close to v_j only if α_j is near 1 and the other weights near 0",
        truth="always sufficient: |c - v_j| ≤ (1 - α_j) max |v_i - v_j|; necessary only if v_j is "
        "outside the convex hull of the other values",
        under_test=(ops.attention, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "lead": Real(0, 20)},
        literal=close_only_if_near_one,
        witness={"values": (0.0, 1.0, -1.0), "weights": (1e-9, 0.5 - 5e-10, 0.5 - 5e-10)},
    ),
    Claim(
        "S000-a.2", "44", FALSE,
        says="if k_j·q is greater than every other score, α_j is almost 1",
        truth="for a weight of 1 - η the score must exceed the others by ln((n - 1)(1 - η)/η); "
        "line 48 of the sheet has ≫, see S000-a.3",
        under_test=(ops.attention, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49)},
        literal=almost_one, witness={"scores": (0.1, 0.0)},
    ),
    Claim(
        "S000-a.3", "48", CONDITIONAL,
        says="the condition is k_j·q ≫ k_i·q",
        truth="the difference must be large, not the ratio: a score that leads all others by Δ has "
        "1/(1 + (n - 1)e^-Δ) ≤ α_j ≤ 1/(1 + e^-Δ)",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=almost_one, witness={"scores": (0.02, 0.00002)},
    ),
    Claim(
        "S001-a.ii", "17", CONDITIONAL,
        says="key j has most of the weight if k_j·q ≫ k_i·q for all others",
        truth="see S000-a.3: the difference of the scores must be large",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=rivals_tie, witness={"n": 10**5, "lead": 10.0},
    ),
    Claim(
        "S001-a.iii.1", "21", CONDITIONAL,
        says="if α_j ≫ α_i for each i, then α_j ≈ 1",
        truth="if α_j ≥ R α_i for each i, then α_j ≥ R/(R + n - 1), which can be attained; so "
        "α_j ≈ 1 needs R ≫ n - 1, or α_j ≫ Σ α_i",
        under_test=(ops.attention,),
        corrected=ratio_bounds_weight, domain={"n": Whole(2, 60), "R": Real(1, 1e6)},
        literal=lambda lab, n, R: rivals_tie(lab, n, math.log(R)),
        witness={"n": 10**6 + 1, "R": 1000.0},
    ),
    Claim(
        "S001-a.iii.2", "21", CONDITIONAL,
        says="if α_j ≈ 1, then c ≈ v_j",
        truth="|c - v_j| ≤ (1 - α_j) max |v_i - v_j|: so the values must be bounded",
        under_test=(ops.attention, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "lead": Real(0, 20)},
        literal=lambda lab, weights, values: equal(
            "c", mixture(lab, weights, values), values[0], 0.1
        ),
        witness={"weights": (0.999, 0.001), "values": (0.0, 1e6)},
    ),
    Claim(
        "S001-a.iv", "25", CONDITIONAL,
        says="if one key is similar to q and the others are uncorrelated, its value is copied",
        truth="for orthonormal keys, q = λ k_j: α_j = 1/(1 + (n - 1)e^-λ), so λ must be large",
        under_test=(copying_query, averaging_weight),
        corrected=copying_weight, domain={"n": Whole(1, 12), "lamda": Real(0, 30)},
        literal=lambda lab, n, lamda: rivals_tie(lab, n, lamda), witness={"n": 10, "lamda": 1.0},
    ),
    Claim(
        "S002-a.1", "7", TYPO,
        says="there is an i with k_i·q ≫ k_i·q for all j",
        truth="k_j·q is meant on the right: the largest score exceeds the others by the Δ of "
        "S000-a.3; if two scores are equal, no weight is near 1",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=almost_one, witness={"scores": (9.0, 9.0)},
    ),
    Claim(
        "S002-a.2", "7", FALSE,
        says="if scores are not negative, it is enough that the others are slightly smaller",
        truth="the sign cannot matter, as softmax(s + c) = softmax(s); the score must exceed the "
        "others by ln((n - 1)(1 - η)/η), which may be small beside the scores",
        under_test=(ops.attention, lead_needed),
        corrected=only_the_lead_counts,
        domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49), "shift": Real(-100, 100)},
        literal=almost_one, witness={"scores": (10.0, 9.9)},
    ),
    Claim(
        "S004-a.ii.2", "36", CONDITIONAL,
        says="a key has nearly all weight if its score is large and all others are zero",
        truth="α_j = 1/(1 + (n - 1)e^-λ); the lead λ matters, not that the others are zero",
        under_test=(copying_query, averaging_weight, weight_bounds),
        corrected=lambda lab, n, lamda: every(
            copying_weight(lab, n, lamda), lead_decides(lab, n, lamda)
        ),
        domain={"n": Whole(2, 12), "lamda": Real(0, 30)},
        literal=lambda lab, n, lamda: rivals_tie(lab, n, lamda), witness={"n": 100, "lamda": 1.0},
    ),
    Claim(
        "S004-a.iii", "40", TYPO,
        says="the weight is on key j, so c ≈ v_i",
        truth="c ≈ v_j is meant, with an error of at most (1 - α_j) max |v_i - v_j|",
        under_test=(ops.attention, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "lead": Real(0, 20)},
        literal=lambda lab, values, lead: equal(
            "c",
            lab.attend(lab.tensor([lead]), lab.tensor([[1.0], [0.0]]), lab.tensor(values))[0],
            values[1],
            NEARLY,
        ),
        witness={"values": ((1.0,), (0.0,)), "lead": 10.0},
    ),
    Claim(
        "S004-a.iv", "44", CONDITIONAL,
        says="if a score is clearly above the others, the value of its key is copied",
        truth="if it exceeds the others by ln((n - 1)(1 - η)/η), then 1 - α_j ≤ η",
        under_test=(ops.attention, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49)},
        literal=rivals_tie, witness={"n": 50_257, "lead": 10.0},
    ),
]
