"""Chapter 7: question 1 (c) ii, one head's weights for the key k_a = y μ_a with a given factor y.

With the query M(μ_a + μ_b) the scores are y M, M and 0.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.claims.multiplier import (
    ONE_STRATUM,
    STRATA,
    first_lengthened,
)
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Domain, Lab, Real, Whole, by_hand
from tinyattn.theory.law import logistic
from tinyattn.theory.noisy_keys import lengthened, one_head, stratified_lengths
from tinyattn.theory.queries import averaging_query, family_query

MUCH = 100
"""The smallest ratio that is called ≫."""


def weights_at(lab: Lab, n: int, M: float, y: float) -> np.ndarray:
    """The weights of all keys for q = M(μ_a + μ_b) and k_a = y μ_a."""
    means = lab.orthonormal(n)
    keys = first_lengthened(means, y)
    return one_head(keys, lab.normal(n, 1), averaging_query(means, [0, 1], M))[1].numpy()


# What is true --------------------------------------------------------------------------------


def scores_are(lab: Lab, n: int, M: float, y: float) -> Finding:
    """k_a·q = y M, k_b·q = M, and 0 for the others; noise of norm δ along q adds δ M√2."""
    means = lab.orthonormal(n)
    query, keys = averaging_query(means, [0, 1], M), first_lengthened(means, y)
    exact = np.array([y * M, M, *[0.0] * (n - 2)])
    along = (means[0] + means[1]) * (1 / math.sqrt(2))
    return every(
        equal("scores", ops.matmul(keys, query), exact),
        equal("scores with noise:", ops.matmul(keys + along, query), exact + M * math.sqrt(2)),
    )


def weights_are(lab: Lab, n: int, M: float, y: float) -> Finding:
    """α_a = e^{yM}/(e^{yM} + e^M + n - 2); n - 2 changes it by a share of at most (n - 2)e^-M."""
    a, b, *others = weights_at(lab, n, M, y)
    rest = math.exp(-M)
    below = math.exp(M * (y - 1)) + 1 + (n - 2) * rest  # all divided by e^M
    without = logistic(M * (y - 1)), logistic(M * (1 - y))
    share = (n - 2) * rest / (1 + (n - 2) * rest)
    return every(
        equal("α_a", a, math.exp(M * (y - 1)) / below),
        equal("α_b", b, 1 / below),
        equal("weights of the others", others, [rest / below] * (n - 2)),
        at_least("α_a and α_b without n - 2", without, (a, b)),
        at_most("excess without n - 2", np.subtract(without, (a, b)), np.multiply(without, share)),
    )


def others_are_small(lab: Lab, n: int, M: float, y: float) -> Finding:
    """0 < α_i ≤ 1/(e^M + n - 2)."""
    others = weights_at(lab, n, M, y)[2:]
    bound = math.exp(-M) / (1 + (n - 2) * math.exp(-M))
    return every(
        weights_are(lab, n, M, y),
        at_most("α_i", others, np.full(n - 2, bound)),
        fact(min(others) > 0, "α_i > 0", "α_i = 0"),
    )


def at_zero(lab: Lab, n: int, M: float) -> Finding:
    """y = 0: α_a = 1/(n - 1 + e^M), like all other weights except α_b."""
    a, b, *others = weights_at(lab, n, M, 0.0)
    small = math.exp(-M) / ((n - 1) * math.exp(-M) + 1)
    return every(
        equal("α_a and other weights", [a, *others], [small] * (n - 1)),
        equal("α_b", b, 1 - (n - 1) * small),
    )


def at_two(lab: Lab, n: int, M: float) -> Finding:
    """y = 2: α_b = 1/(1 + e^M + (n - 2)e^-M), so e^M α_b is between 1/n and 1."""
    a, b, *others = weights_at(lab, n, M, 2.0)
    rest = math.exp(-M)
    below = rest + 1 + (n - 2) * rest * rest
    return every(
        equal("e^M α_b", b / rest, 1 / below, 1e-10),
        equal("1 - α_a", b + sum(others), (rest + (n - 2) * rest * rest) / below),
        equal("α_a", a, 1 / below),
        at_least("e^M α_b", b / rest, 1 / n),
    )


def at_one_and_a_half(lab: Lab, n: int, M: float) -> Finding:
    """y = 1.5: α_a is 1/(1 + e^(-M/2) + (n - 2)e^(-3M/2)), σ(M/2) for n = 2."""
    below = 1 + math.exp(-M / 2) + (n - 2) * math.exp(-1.5 * M)
    return every(
        equal("α_a", weights_at(lab, n, M, 1.5)[0], 1 / below),
        equal("α_a for n = 2:", weights_at(lab, 2, M, 1.5)[0], logistic(M / 2)),
    )


def below_one(lab: Lab, n: int, M: float, y: float) -> Finding:
    """y < 1 gives α_a ≤ e^(-M(1 - y)); at y = 1 - 1/M α_a does not tend to 0."""
    stays = 1 / (1 + math.e + (n - 2) * math.exp(1 - M))
    return every(
        at_most("α_a", weights_at(lab, n, M, y)[0], math.exp(-M * (1 - y))),
        equal("α_a at y = 1 - 1/M:", weights_at(lab, n, M, 1 - 1 / M)[0], stays),
    )


def ratio_to_the_others(lab: Lab, n: int, c1: float, c2: float, s: float) -> Finding:
    """α_a/α_i = e^(s c_1 - c_2), α_b/α_i = e^(c_1 - c_2)."""
    means = lab.orthonormal(n)
    query = family_query(means, [0, 1], c1, c2)
    weights = one_head(first_lengthened(means, s), lab.normal(n, 1), query)[1].numpy()
    logs, below = np.log(weights), (stratified_lengths(STRATA) < 0).mean()
    return every(
        equal("weights", weights, by_hand([s * c1, c1, *[c2] * (n - 2)])),
        equal("ln α_a/α_i", logs[0] - logs[2:], np.full(n - 2, s * c1 - c2), 1e-10),
        equal("ln α_b/α_i", logs[1] - logs[2:], np.full(n - 2, c1 - c2), 1e-10),
        equal("share with s < 0:", below, 0.0786, ONE_STRATUM),
    )


# What the sheets say -------------------------------------------------------------------------


def scores_are_weights(lab: Lab, n: int, M: float, y: float) -> Finding:
    """α_i = k_i·q."""
    means = lab.tensor(np.eye(n))
    query, keys = averaging_query(means, [0, 1], M), first_lengthened(means, y)
    return equal("α", one_head(keys, lab.normal(n, 2), query)[1], ops.matmul(keys, query))


def all_on_a(lab: Lab, n: int, M: float, y: float) -> Finding:
    """c = v_a."""
    return equal("α_a", weights_at(lab, n, M, y)[0], 1.0, NEARLY)


def all_on_b(lab: Lab, n: int, M: float, y: float) -> Finding:
    """c = v_b."""
    return equal("α_b", weights_at(lab, n, M, y)[1], 1.0, NEARLY)


def a_without_the_rest(lab: Lab, n: int, M: float, y: float) -> Finding:
    """α_a as if k_a and k_b were the only keys."""
    return equal("α_a", weights_at(lab, n, M, y)[0], logistic(M * (y - 1)), NEARLY)


def a_far_above_others(lab: Lab, n: int, c1: float, c2: float, s: float) -> Finding:
    """α_a is much larger than the others."""
    means = lab.orthonormal(n)
    keys, query = first_lengthened(means, s), family_query(means, [0, 1], c1, c2)
    weights = one_head(keys, lab.normal(n, 1), query)[1].numpy()
    return at_least("α_a/α_i", weights[0] / weights[2], MUCH)


def square_rate(lab: Lab, n: int, M: float) -> Finding:
    """At y = 2 α_b is 1/∞², that is e^-2M."""
    return equal("α_b", weights_at(lab, n, M, 2.0)[1], math.exp(-2 * M), NEARLY * math.exp(-2 * M))


# fmt: off
GIVEN: Domain = {"n": Whole(2, 8), "M": Real(0, 60), "y": Real(-5, 5)}
SIZES: Domain = {"n": Whole(2, 8), "M": Real(0, 60)}
HEAD = (one_head, averaging_query, lengthened)
CLAIMS = [
    Claim(
        "S000-c.ii.5", "96-100", TYPO,
        says="α_i = k_i·q, so that α_b ≈ M",
        truth="these are the scores: y M, M and 0; α is their softmax, as in line 108",
        under_test=HEAD, corrected=weights_are, domain=GIVEN,
        literal=scores_are_weights, witness={"n": 3, "M": 10.0, "y": 1.0},
    ),
    Claim(
        "S000-c.ii.6", "106-108", CONDITIONAL,
        says="c = α_a v_a + α_b v_b, where the denominators are e^{yM} + e^M",
        truth="the denominator is e^{yM} + e^M + n - 2; without n - 2 the weights are too large "
        "by a share of at most (n - 2)e^-M",
        under_test=HEAD, corrected=weights_are, domain=GIVEN,
        literal=a_without_the_rest, witness={"n": 1000, "M": 3.0, "y": 1.0},
    ),
    Claim(
        "S000-c.ii.7", "114", CONDITIONAL,
        says="y → 0 gives c = v_b",
        truth="at y = 0 α_a is 1/(n - 1 + e^M): M → ∞ is needed, not only y → 0",
        under_test=HEAD, corrected=at_zero, domain=SIZES,
        literal=lambda lab, n, M: all_on_b(lab, n, M, 0.0), witness={"n": 1000, "M": 5.0},
    ),
    Claim(
        "S000-c.ii.8", "118-125", CONDITIONAL,
        says="y → 2 gives c = v_a",
        truth="at y = 2 α_b is 1/(1 + e^M + (n - 2)e^-M): again M → ∞ is needed",
        under_test=HEAD, corrected=at_two, domain=SIZES,
        literal=lambda lab, n, M: all_on_a(lab, n, M, 2.0), witness={"n": 1000, "M": 3.0},
    ),
    Claim(
        "S000-c.ii.9", "125", TYPO,
        says="for y → 2 the weight of v_b is ∞/∞², which is 1/∞²",
        truth="it is 1/∞: α_b is about e^-M",
        under_test=HEAD, corrected=at_two, domain=SIZES,
        literal=square_rate, witness={"n": 2, "M": 10.0},
    ),
    Claim(
        "S001-c.ii.3", "119-123", TRUE,
        says="the scores are y M, M and 0",
        truth="this is exact for α = 0; else the noise adds a deviation of M√(2α) to each",
        under_test=(averaging_query, lengthened), corrected=scores_are, domain=GIVEN,
    ),
    Claim(
        "S001-c.ii.4", "125", CONDITIONAL,
        says="α_a = 1/(1 + e^{M(1 - y)})",
        truth="true for n = 2; otherwise (n - 2)e^{-My} is missing in the denominator",
        under_test=HEAD, corrected=weights_are, domain=GIVEN,
        literal=a_without_the_rest, witness={"n": 100, "M": 2.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.5", "127", CONDITIONAL,
        says="α_b = 1/(1 + e^{M(y - 1)})",
        truth="true for n = 2; otherwise (n - 2)e^-M is missing in the denominator",
        under_test=HEAD, corrected=weights_are, domain=GIVEN,
        literal=lambda lab, n, M, y: equal(
            "α_b", weights_at(lab, n, M, y)[1], logistic(M * (1 - y)), NEARLY
        ),
        witness={"n": 100, "M": 2.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.6", "129", CONDITIONAL,
        says="α_i = 0 for all others",
        truth="0 < α_i ≤ 1/(e^M + n - 2), and there are n - 2 such weights",
        under_test=HEAD, corrected=others_are_small,
        domain={"n": Whole(3, 8), "M": Real(0, 60), "y": Real(-5, 5)},
        literal=lambda lab, n, M, y: equal(
            "Σ α_i", weights_at(lab, n, M, y)[2:].sum(), 0.0, NEARLY
        ),
        witness={"n": 1000, "M": 5.0, "y": 1.0},
    ),
    Claim(
        "S001-c.ii.7", "133-135", CONDITIONAL,
        says="y → 1.5 gives α_a → 1 and c = v_a",
        truth="for two keys α_a is σ(M/2) at y = 1.5: 0.99 needs M = 9.2",
        under_test=HEAD, corrected=at_one_and_a_half, domain=SIZES,
        literal=lambda lab, n, M: all_on_a(lab, n, M, 1.5), witness={"n": 2, "M": 2.0},
    ),
    Claim(
        "S001-c.ii.8", "137-139", CONDITIONAL,
        says="y < 1 gives α_a → 0 and c = v_b",
        truth="for each fixed y, α_a ≤ e^(-M(1 - y)); at y = 1 - 1/M α_a stays 1/(1 + e)",
        under_test=HEAD, corrected=below_one,
        domain={"n": Whole(2, 8), "M": Real(0.1, 60), "y": Real(-5, 1)},
        literal=all_on_b, witness={"n": 2, "M": 1000.0, "y": 0.999},
    ),
    Claim(
        "S002-c.2.1", "11", CONDITIONAL,
        says="α_a and α_b are still much larger than the others",
        truth="true for α_b; but α_a/α_i = e^(s c_1 - c_2), which is below 1 if s < c_2/c_1, for "
        "c_2 = 0 in 7.9 % of draws",
        under_test=(one_head, family_query, lengthened), corrected=ratio_to_the_others,
        domain={"n": Whole(3, 8), "c1": Real(-30, 30), "c2": Real(-30, 30), "s": Real(-5, 5)},
        literal=a_far_above_others, witness={"n": 3, "c1": 20.0, "c2": 0.0, "s": -0.5},
    ),
]
