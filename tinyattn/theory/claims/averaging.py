"""Chapter 7: question 1 (b) ii, the mean of two values: the lead M that it needs."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, TYPO, Claim
from tinyattn.theory.claims.copying import mixture
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals, Whole, by_hand
from tinyattn.theory.noisy_keys import lengthened
from tinyattn.theory.queries import averaging_error, averaging_query, averaging_weight, query_of
from tinyattn.theory.weights import imbalance, lead_needed


def two_ahead(n: int, M: float) -> tuple[float, ...]:
    """The scores of M(k_a + k_b) for orthonormal keys."""
    return (M, M, *[0.0] * (n - 2))


# What is true --------------------------------------------------------------------------------


def error_measures_weights(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """|c - mean| is from σ |Δα| to diam(V)·½ Σ |Δα_i|, with Δα = α - (½, ½, 0, ..).

    σ is a smallest singular value, and above 0 for affinely independent values.
    """
    n = len(scores)
    keys, values = lab.orthonormal(n), lab.normal(n, n + 2)
    c, weights = (t.numpy() for t in lab.attend(query_of(keys, scores), keys, values))
    v = values.numpy()
    misplaced = weights - [0.5, 0.5, *[0.0] * (n - 2)]
    error = np.linalg.norm(c - (v[0] + v[1]) / 2)
    widest = max(np.linalg.norm(x - y) for x in v for y in v)
    inward = np.linalg.svd(np.ones((1, n)))[2][1:]  # changes that keep the sum of the weights
    stretch = np.linalg.svd(inward @ v, compute_uv=False)[-1]
    return every(
        equal("weights", weights, by_hand(scores)),
        at_most("|c - ½(v_a + v_b)|", error, abs(misplaced).sum() / 2 * widest),
        at_least("|c - ½(v_a + v_b)|", error, stretch * np.linalg.norm(misplaced)),
    )


def two_share_one(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """All weights sum to 1, so the smaller of two weights is at most ½."""
    weights = lab.weights(scores).numpy()
    return every(
        equal("sum of the weights", weights.sum(), 1.0),
        at_most("smaller of α_a and α_b", weights[:2].min(), 0.5),
    )


def share_is_tanh(lab: Lab, scores: tuple[float, ...], difference: float) -> Finding:
    """The share α_a/(α_a + α_b) depends only on the difference of the two scores."""
    all_scores = (scores[0] + difference, *scores)
    weights, (a, b) = lab.weights(all_scores).numpy(), by_hand(all_scores[:2])
    return every(
        equal("weights", weights, by_hand(all_scores)),
        equal("α_a (1 - share)", weights[0] * b, weights[1] * a),
        equal("|share - ½|", abs(a - 0.5), imbalance(difference)),
    )


def exact_mean(lab: Lab, n: int, M: float) -> Finding:
    """The exact weights and output of M(k_a + k_b), for real M and any two of the keys."""
    keys, values = lab.orthonormal(n), lab.normal(n, 3)
    a, b = (int(i) for i in lab.rng.permutation(n)[:2])
    c, weights = (t.numpy() for t in lab.attend(averaging_query(keys, [a, b], M), keys, values))
    v, rest = values.numpy(), n - 2 + 2 * math.exp(M)  # the denominator of the sheets
    mean, others = (v[a] + v[b]) / 2, np.delete(v, [a, b], axis=0)
    far = others.mean(axis=0) - mean if n > 2 else 0 * mean
    return every(
        equal("α_a, α_b", weights[[a, b]], [math.exp(M) / rest] * 2),
        equal("α_a", weights[a], averaging_weight(n, M)),
        equal("½ - α_a:", 0.5 - weights[a], (n - 2) / (2 * rest)),
        equal("c - ½(v_a + v_b)", c - mean, averaging_error(n, M) * far),
    )


def any_length(lab: Lab, n: int, M: float, length: float) -> Finding:
    """M(k_a/|k_a|² + k_b/|k_b|²) averages for orthogonal keys of any norm."""
    means, lengths = lab.orthonormal(n), lab.rng.uniform(0.5, 2, n) * length
    query = averaging_query(lengthened(means, 1 / lengths), [0, 1], M)
    keys = lab.tensor(means.numpy() * lengths[:, None])
    weights = lab.attend(query, keys, lab.normal(n, 2))[1].numpy()
    return equal("α_a, α_b", weights[:2], [averaging_weight(n, M)] * 2)


def never_exactly(lab: Lab, n: int, M: float) -> Finding:
    """α_a is ½ only for n = 2; otherwise below ½, until float64 rounds it, for M of 34 to 40."""
    missing = 0.5 - lab.weights(two_ahead(n, M), 1).item()
    if n == 2 or M > 40:
        return fact(missing == 0, "α_a = ½", f"½ - α_a {missing:.1e}")
    return every(
        equal("½ - α_a:", missing, averaging_error(n, M) / 2),
        fact(missing > 0 or M > 34, "α_a < ½", "α_a reaches ½"),
    )


def exponentials_below(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """The denominator is Σ e^s over all keys."""
    powers = [math.exp(s) for s in scores]
    below = sum(powers[2:]) + powers[0] + powers[1]
    return equal("weights", lab.weights(scores), [power / below for power in powers])


def pair_between_bounds(lab: Lab, n: int, lead: float) -> Finding:
    """Two equal scores that lead the next by Δ: 1/(2 + (n - 2)e^-Δ) ≤ α_a ≤ 1/(2 + e^-Δ)."""
    others = sorted(lab.rng.uniform(-20, 0, n - 2).tolist(), reverse=True)
    weight = lab.weights((others[0] + lead, others[0] + lead, *others), 1)
    return every(
        at_least("α_a", weight, averaging_weight(n, lead)),
        at_most("α_a", weight, averaging_weight(3, lead)),
    )


def lead_for_two(lab: Lab, n: int, eta: float) -> Finding:
    """With M = ln((n - 2)(1 - η)/(2η)) the other keys have the weight η, α_a = α_b = (1 - η)/2."""
    weights = lab.weights(two_ahead(n, lead_needed(n, eta, many=2)))
    return every(
        equal("weight of the others", weights[2:].sum(), eta),
        equal("α_a, α_b", weights[:2], [(1 - eta) / 2] * 2),
    )


# What the sheets say -------------------------------------------------------------------------


def near_only_if_half_each(
    lab: Lab, values: tuple[float, ...], weights: tuple[float, ...]
) -> Finding:
    """If c is close to ½(v_a + v_b), the first two values, then α_a and α_b are near ½."""
    off = mixture(lab, weights, values) - sum(values[:2]) / 2
    return fact(
        abs(off) > NEARLY or max(abs(w - 0.5) for w in weights[:2]) < NEARLY,
        "c is away from ½(v_a + v_b), or α_a and α_b near ½",
        f"c - ½(v_a + v_b) is {off:.1g}, while α_a is {weights[0]:.0e}",
    )


def half_each(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """The first two scores are the largest, so each has a weight of about ½."""
    return equal("α_a, α_b", lab.weights(scores, 2), (0.5, 0.5), NEARLY)


def ties_at_zero(lab: Lab, n: int, M: float) -> Finding:
    """The same with n - 2 other scores of 0."""
    return half_each(lab, two_ahead(n, M))


def one_each(lab: Lab, n: int, M: float) -> Finding:
    """Each of the two largest scores, which are equal, has the weight 1."""
    return equal("α_a, α_b", lab.weights(two_ahead(n, M), 2), (1, 1), NEARLY)


def weights_below(lab: Lab, n: int, M: float) -> Finding:
    """α_a = e^s_a/(Σ α_j + e^s_a + e^s_b), with the weights α_j of the other keys."""
    weights, power = lab.weights(two_ahead(n, M)).numpy(), math.exp(M)
    return equal("α_a", weights[0], power / (weights[2:].sum() + 2 * power))


# fmt: off
CLAIMS = [
    Claim(
        "S000-b.1", "52", CONDITIONAL,
        says="c = ½(v_a + v_b) needs α_a and α_b near ½ and the others near 0",
        truth="always sufficient: the error is ≤ ½ Σ |Δα_i| times the diameter of the values; "
        "necessary if the values are affinely independent, but not if another convex combination "
        "of them is ½(v_a + v_b), too",
        under_test=(ops.attention, query_of),
        corrected=error_measures_weights, domain={"scores": Reals(-20, 20, 2, 8)},
        literal=near_only_if_half_each,
        witness={"values": (-1.0, 1.0, 0.0), "weights": (1e-9, 1e-9, 1 - 2e-9)},
    ),
    Claim(
        "S000-b.2", "56", TYPO,
        says="α_a ≈ α_b ≈ 1",
        truth="both are ½, as in line 52: the sum of all weights is 1, so the smaller of two is at "
        "most ½",
        under_test=(ops.attention,),
        corrected=two_share_one, domain={"scores": Reals(-50, 50, 2, 12)},
        literal=one_each, witness={"n": 10, "M": 20.0},
    ),
    Claim(
        "S000-b.3", "57", CONDITIONAL,
        says="k_a·q ≈ k_b·q ≫ k_i·q is the condition",
        truth="the difference must be well below 1, not the ratio near 1: α_a/(α_a + α_b) differs "
        "from ½ by ½ tanh(|s_a - s_b|/2)",
        under_test=(ops.attention, imbalance),
        corrected=share_is_tanh,
        domain={"scores": Reals(-300, 300, 1, 12), "difference": Real(-40, 40)},
        literal=half_each, witness={"scores": (1001.0, 1000.0, 0.0)},
    ),
    Claim(
        "S000-b.5", "59", TYPO,
        says="after the softmax the weight of the wanted value is 1, and the others are 0",
        truth="two are wanted, with ½ each: exactly (1 - η)/2 if M = ln((n - 2)(1 - η)/(2η))",
        under_test=(ops.attention, lead_needed),
        corrected=lead_for_two, domain={"n": Whole(3, 200), "eta": Real(1e-6, 0.9)},
        literal=one_each, witness={"n": 10, "M": 20.0},
    ),
    Claim(
        "S000-b.6", "63, 65", CONDITIONAL,
        says="q = M(k_a + k_b) with a large positive integer M averages v_a and v_b",
        truth="for any real M and orthonormal keys, ½ - α_a is (n - 2)/(2(n - 2 + 2e^M)) exactly; "
        "c - ½(v_a + v_b) is twice that times (mean of the others - ½(v_a + v_b)); so M - ln n ≫ 1 "
        "is needed",
        under_test=(averaging_query, averaging_weight, averaging_error, ops.attention),
        corrected=exact_mean, domain={"n": Whole(2, 9), "M": Real(-10, 100)},
        literal=ties_at_zero, witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S001-b.ii.1", "90", CONDITIONAL,
        says="α_a = α_b = ½, and α_i = 0 for all others",
        truth="this is exact only for n = 2; otherwise it is a limit: ½ - α_a = (n - 2)/(2(n - 2 + "
        "2e^M)) > 0",
        under_test=(ops.attention, averaging_error),
        corrected=never_exactly, domain={"n": Whole(2, 9), "M": Real(0, 60)},
        literal=lambda lab, n, M: equal("α_a", lab.weights(two_ahead(n, M), 1).item(), 0.5),
        witness={"n": 4, "M": 5.0},
    ),
    Claim(
        "S001-b.ii.2", "94, 96", TYPO,
        says="α_a = e^s_a/(Σ α_j + e^s_a + e^s_b), where j runs over the others",
        truth="exponentials are meant, as in line 125: Σ e^s_j + e^s_a + e^s_b",
        under_test=(ops.attention,),
        corrected=exponentials_below, domain={"scores": Reals(-50, 50, 2, 12)},
        literal=weights_below, witness={"n": 4, "M": 0.0},
    ),
    Claim(
        "S001-b.ii.3", "98-100", CONDITIONAL,
        says="q = M(k_a + k_b) with M ≫ 0 averages v_a and v_b",
        truth="M - ln n ≫ 1 is needed, for keys of norm 1; for orthogonal keys of any norm "
        "M(k_a/|k_a|² + k_b/|k_b|²) averages",
        under_test=(averaging_query, averaging_weight, lengthened),
        corrected=any_length,
        domain={"n": Whole(2, 9), "M": Real(-10, 60), "length": Real(0.1, 10)},
        literal=ties_at_zero, witness={"n": 10**5, "M": 10.0},
    ),
    Claim(
        "S002-b.1", "8", TYPO,
        says="the condition is k_a·q = k_b·q ≫ k_i (without q on the right)",
        truth="k_i·q is meant: 10 exceeds all elements of a unit vector, but a third score may be "
        "20; with a lead of Δ, 1/(2 + (n - 2)e^-Δ) ≤ α_a ≤ 1/(2 + e^-Δ)",
        under_test=(ops.attention, averaging_weight),
        corrected=pair_between_bounds, domain={"n": Whole(3, 40), "lead": Real(0, 40)},
        literal=half_each, witness={"scores": (10.0, 10.0, 20.0)},
    ),
    Claim(
        "S004-b.ii.3", "109", CONDITIONAL,
        says="exp(0) is negligible compared with exp(β)",
        truth="there are n - 2 such terms: their weight is η if β = ln((n - 2)(1 - η)/(2η))",
        under_test=(ops.attention, lead_needed),
        corrected=lead_for_two, domain={"n": Whole(3, 200), "eta": Real(1e-6, 0.9)},
        literal=lambda lab, n, beta: at_most(
            "weight of the others", 1 - lab.weights(two_ahead(n, beta), 2).sum(), NEARLY
        ),
        witness={"n": 10**5, "beta": 10.0},
    ),
    Claim(
        "S004-b.ii.4", "111", CONDITIONAL,
        says="α_a = e^β/(n - 2 + 2e^β), about ½ for β ≫ 0",
        truth="the equality is exact for any real β; α_a is about ½ if β - ln n ≫ 1",
        under_test=(averaging_query, averaging_weight, averaging_error, ops.attention),
        corrected=lambda lab, n, beta: exact_mean(lab, n, beta),
        domain={"n": Whole(2, 9), "beta": Real(-10, 100)},
        literal=lambda lab, n, beta: ties_at_zero(lab, n, beta),
        witness={"n": 10**5, "beta": 10.0},
    ),
    Claim(
        "S004-b.ii.5", "99", CONDITIONAL, of_question=True,
        says="the softmax never averages exactly",
        truth="for n = 2 it does; for n ≥ 3 it does not, but float64 rounds α_a to ½ if e^-M is "
        "small enough",
        under_test=(ops.attention, averaging_error),
        corrected=never_exactly, domain={"n": Whole(2, 9), "M": Real(0, 60)},
        literal=lambda lab, n, M: fact(
            lab.weights(two_ahead(n, M), 1).item() != 0.5, "α_a is not ½", "α_a is ½ exactly"
        ),
        witness={"n": 2, "M": 3.0},
    ),
]
