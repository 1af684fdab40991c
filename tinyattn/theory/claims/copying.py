"""Chapter 7: question 1 (a), copying one value. What `≫` means, and what a large score buys."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole, by_hand
from tinyattn.theory.queries import averaging_weight, copying_query, distribution_query, query_of
from tinyattn.theory.weights import lead_needed, weight_bounds


def leading(lab: Lab, n: int, lead: float) -> list[float]:
    """Random scores of which the first leads the second by so much."""
    rivals = sorted(lab.rng.uniform(-20, 0, n - 1).tolist(), reverse=True)
    return [rivals[0] + lead, *rivals]


def mixture(lab: Lab, weights: tuple[float, ...], values: tuple[float, ...]) -> float:
    """What attention with these weights makes of numbers."""
    keys, column = lab.orthonormal(len(weights)), lab.tensor(values).reshape(-1, 1)
    return lab.answer(distribution_query(keys, weights), keys, column).item()


# What is true --------------------------------------------------------------------------------


def error_is_the_weight_missing(lab: Lab, n: int, lead: float) -> Finding:
    """c - v_j is the missing weight times (mean of the others, by their weights - v_j).

    With v_j outside the hull of the others it bounds the weight missing, too: by the least stretch
    of a change of weights, or by the distance of the hull: √(1 + 1/(n - 1)) for orthonormal values.
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
    """The top weight lies between the bounds, and both can be reached."""
    low, high = weight_bounds(lead, n)
    top = lab.weights(leading(lab, n, lead), 1).item()
    return every(
        at_least("top weight", top, low),
        at_most("top weight", top, high),
        equal("all rivals tied", lab.weights([lead, *[0.0] * (n - 1)], 1).item(), low),
        equal("rivals far behind", lab.weights([lead, 0.0, *[-800.0] * (n - 2)], 1).item(), high),
    )


def lead_suffices(lab: Lab, n: int, eta: float) -> Finding:
    """The stated lead leaves exactly that error when all rivals tie, and less otherwise."""
    lead = lead_needed(n, eta)
    return every(
        equal("all rivals tied", lab.weights([lead, *[0.0] * (n - 1)], 1).item(), 1 - eta),
        at_least("top weight", lab.weights(leading(lab, n, lead), 1).item(), 1 - eta),
    )


def only_the_lead_counts(lab: Lab, n: int, eta: float, shift: float) -> Finding:
    """Adding a number to all scores changes nothing, so their sign cannot matter; a lead does."""
    s = lab.rng.uniform(-50, 50, n)
    return every(
        lead_suffices(lab, n, eta),
        equal("weights", lab.weights(lab.tensor(s) + shift), by_hand(s)),
    )


def ratio_bounds_weight(lab: Lab, n: int, R: float) -> Finding:
    """α_j ≥ R α_i for all i gives α_j ≥ R/(R + n - 1), reached when the others tie."""
    bound = R / (R + n - 1)
    return every(
        equal("others tied", lab.weights([math.log(R), *[0.0] * (n - 1)], 1).item(), bound),
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
    """The same, with n - 1 rivals that tie."""
    return almost_one(lab, (lead, *[0.0] * (n - 1)))


# fmt: off
CLAIMS = [
    Claim(
        "S000-a.1", "42", CONDITIONAL,
        says="c is close to v_j only if α_j is near 1 and the other weights near 0",
        truth="sufficient always: |c - v_j| ≤ (1 - α_j) max |v_i - v_j|; necessary only if v_j is "
        "outside the hull of the other values",
        under_test=(ops.attention, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "lead": Real(0, 20)},
        literal=close_only_if_near_one,
        witness={"values": (0.0, 1.0, -1.0), "weights": (1e-9, 0.5 - 5e-10, 0.5 - 5e-10)},
    ),
    Claim(
        "S000-a.2", "44", FALSE,
        says="if k_j·q is greater than every other score, α_j is almost 1",
        truth="the lead must be at least ln((n - 1)(1 - η)/η) for a weight of 1 - η; line 48 of "
        "the sheet has ≫, so see S000-a.3",
        under_test=(ops.attention, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49)},
        literal=almost_one, witness={"scores": (0.1, 0.0)},
    ),
    Claim(
        "S000-a.3", "48", CONDITIONAL,
        says="the condition is k_j·q ≫ k_i·q",
        truth="≫ is a difference, not a ratio: with a lead of Δ, "
        "1/(1 + (n - 1)e^-Δ) ≤ α_j ≤ 1/(1 + e^-Δ)",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=almost_one, witness={"scores": (0.02, 0.00002)},
    ),
    Claim(
        "S001-a.ii", "17", CONDITIONAL,
        says="weight gathers on j when k_j·q ≫ k_i·q for all others",
        truth="as S000-a.3: a matter of differences",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=rivals_tie, witness={"n": 10**5, "lead": 10.0},
    ),
    Claim(
        "S001-a.iii.1", "21", CONDITIONAL,
        says="if α_j ≫ α_i for each i, then α_j ≈ 1",
        truth="α_j ≥ R α_i for each i gives α_j ≥ R/(R + n - 1) and no more: R ≫ n - 1, or "
        "α_j ≫ Σ α_i",
        under_test=(ops.attention,),
        corrected=ratio_bounds_weight, domain={"n": Whole(2, 60), "R": Real(1, 1e6)},
        literal=lambda lab, n, R: rivals_tie(lab, n, math.log(R)),
        witness={"n": 10**6 + 1, "R": 1000.0},
    ),
    Claim(
        "S001-a.iii.2", "21", CONDITIONAL,
        says="α_j ≈ 1 makes c ≈ v_j",
        truth="|c - v_j| ≤ (1 - α_j) max |v_i - v_j|: the values must be bounded",
        under_test=(ops.attention, query_of),
        corrected=error_is_the_weight_missing, domain={"n": Whole(2, 8), "lead": Real(0, 20)},
        literal=lambda lab, weights, values: equal(
            "c", mixture(lab, weights, values), values[0], 0.1
        ),
        witness={"weights": (0.999, 0.001), "values": (0.0, 1e6)},
    ),
    Claim(
        "S001-a.iv", "25", CONDITIONAL,
        says="a key similar to q, with the others uncorrelated, has its value copied",
        truth="orthonormal keys, q = λ k_j: α_j = 1/(1 + (n - 1)e^-λ), so λ must be large",
        under_test=(copying_query, averaging_weight),
        corrected=copying_weight, domain={"n": Whole(1, 12), "lamda": Real(0, 30)},
        literal=lambda lab, n, lamda: rivals_tie(lab, n, lamda), witness={"n": 10, "lamda": 1.0},
    ),
    Claim(
        "S002-a.1", "7", TYPO,
        says="there is an i with k_i·q ≫ k_i·q for all j",
        truth="k_j·q stands on the right: the largest score leads, by the Δ of S000-a.3; over one "
        "that is the same, a lead of 0, no weight is near 1",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=almost_one, witness={"scores": (9.0, 9.0)},
    ),
    Claim(
        "S002-a.2", "7", FALSE,
        says="if scores are not negative, rivals that are just a little smaller will do",
        truth="the sign of scores cannot matter: softmax(s + c) = softmax(s); the lead must be "
        "ln((n - 1)(1 - η)/η), though it need be no large share of the scores",
        under_test=(ops.attention, lead_needed),
        corrected=only_the_lead_counts,
        domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49), "shift": Real(-100, 100)},
        literal=almost_one, witness={"scores": (10.0, 9.9)},
    ),
    Claim(
        "S004-a.ii.2", "36", CONDITIONAL,
        says="a large product with one key and zero with the rest gives it nearly all weight",
        truth="α_j = 1/(1 + (n - 1)e^-λ); what counts is the lead, not that the others are zero",
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
        truth="c ≈ v_j, up to (1 - α_j) max |v_i - v_j|",
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
        says="a score clearly above the others copies the value",
        truth="with a lead of ln((n - 1)(1 - η)/η) the weight missing is η at most",
        under_test=(ops.attention, lead_needed),
        corrected=lead_suffices, domain={"n": Whole(2, 200), "eta": Real(1e-6, 0.49)},
        literal=rivals_tie, witness={"n": 50_257, "lead": 10.0},
    ),
]
