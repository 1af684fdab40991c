"""Chapter 7: question 1 (c) ii, the output of one head over many samples of the factor y.

The query M(μ_a + μ_b) multiplies the noise in y by M, so c is near v_a in some draws and near v_b
in others; the share of draws in between falls only like 1/M. A query with negative scores for the
other keys does not depend on y.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.claims.multiplier import (
    ONE_STRATUM,
    STRATA,
    first_lengthened,
)
from tinyattn.theory.claims.one_head import weights_at
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole, by_hand
from tinyattn.theory.law import LogitNormal, one_head_law
from tinyattn.theory.noisy_keys import lengthened, one_head, stratified_lengths
from tinyattn.theory.queries import (
    averaging_query,
    averaging_weight,
    family_query,
    repelling_query,
)

VARIES = 0.1
"""The variance of α_a that is called strong; the largest possible one is ¼."""
SMOOTH = 5e-5
"""The largest difference of means and variances over the quantiles of y and integrals."""


def weights_of_all(lab: Lab, n: int, c1: float, c2: float = 0.0) -> np.ndarray:
    """The weights at the quantiles of y, (N, n), for q = c_1(μ_a + μ_b) + c_2 Σ μ_i."""
    means = lab.orthonormal(n)
    keys = first_lengthened(means, stratified_lengths(STRATA))
    return one_head(keys, lab.normal(n, 1), family_query(means, [0, 1], c1, c2))[1].numpy()


# What is true --------------------------------------------------------------------------------


def is_logit_normal(lab: Lab, n: int, M: float) -> Finding:
    """logit α_a ~ N(M - ln(e^M + n - 2), M²/2), and c = α_a v_a + (1 - α_a) w."""
    means, v = lab.orthonormal(n), lab.normal(n, 3)
    keys = first_lengthened(means, stratified_lengths(STRATA))
    c, weights = (t.numpy() for t in one_head(keys, v, averaging_query(means, [0, 1], M)))
    a, values, law = weights[:, 0], v.numpy(), one_head_law(M, n)
    others = np.vstack([values[1:2], values[2:] * math.exp(-M)])
    w = others.sum(axis=0) / (1 + (n - 2) * math.exp(-M))
    off = c - a[:, None] * values[0] - (1 - a[:, None]) * w
    quantiles = [law.quantile((i + 0.5) / STRATA) for i in range(0, STRATA, 10)]
    return every(
        equal("largest error of the quantiles", np.abs(a[::10] - quantiles).max(), 0.0),
        equal("largest distance of c from the line", np.abs(off).max(), 0.0),
        equal("mean of α_a", law.mean(), a.mean(), SMOOTH),
        equal("variance of α_a", law.variance(), a.var(), SMOOTH),
    )


def two_values_alternate(lab: Lab, n: int, M: float) -> Finding:
    """Two keys: E α_a = ½, ¼ - 1/(√π M) ≤ Var α_a ≤ ¼, and two modes if and only if M > 2."""
    a, law = weights_of_all(lab, 2, M)[:, 0], one_head_law(M, 2)
    least, modes = 0.25 - 1 / (math.sqrt(math.pi) * M), law.modes()
    findings = [
        is_logit_normal(lab, n, M),
        equal("n = 2: mean of α_a", a.mean(), 0.5),
        at_least("variance of α_a", (a.var(), law.variance()), (least, least), SMOOTH),
        at_most("variance of α_a", (a.var(), law.variance()), (0.25, 0.25)),
    ]
    if abs(M - 2) > 0.01:  # near 2 the two modes are too close
        findings.append(equal("number of modes", len(modes), 1 + (M > 2)))
    if M < 37:  # for larger M e^(-M²/2) is too small for float64
        low = min(modes)  # the other mode is 1 - low, with fewer exact digits
        logit = math.log(low) - math.log1p(-low)
        findings.append(equal("logit of the first mode", logit, M**2 * (low - 0.5), 1e-9))
    return every(*findings)


def norms_do_not_matter(lab: Lab, n: int, L: float, y_a: float, y_b: float) -> Finding:
    """q = -L Σ μ_i over the others: α_a = α_b = 1/(2 + (n - 2)e^-L) for any norms of k_a, k_b."""
    means = lab.orthonormal(n)
    keys = lengthened(means, [y_a, y_b, *[1.0] * (n - 2)])
    weights = one_head(keys, lab.normal(n, 1), repelling_query(means, [0, 1], L))[1].numpy()
    exact = 1 / (2 + (n - 2) * math.exp(-L))
    return equal("α_a, α_b", weights[:2], [exact, exact])


def in_between(lab: Lab, M: float, eta: float) -> Finding:
    """For two keys, P(η < α_a < 1 - η) = erf(ln((1 - η)/η)/M)."""
    a = weights_of_all(lab, 2, M)[:, 0]
    wanted = math.erf(math.log((1 - eta) / eta) / M)
    law = one_head_law(M, 2)
    quantiles = [law.quantile((i + 0.5) / STRATA) for i in range(0, STRATA, 10)]
    return every(
        equal("largest error of the quantiles", np.abs(a[::10] - quantiles).max(), 0.0),
        equal("share in between", ((a > eta) & (a < 1 - eta)).mean(), wanted, ONE_STRATUM),
        equal("probability in between", law.below(1 - eta) - law.below(eta), wanted),
    )


def equal_just_at_one(lab: Lab, n: int, c1: float, c2: float, s: float) -> Finding:
    """ln α_a/α_b = c_1(s - 1), and P(s = 1) = 0; of the quantiles only the median is 1."""
    means = lab.orthonormal(n)
    query = family_query(means, [0, 1], c1, c2)
    weights = one_head(first_lengthened(means, s), lab.normal(n, 1), query)[1].numpy()
    a, b, *_ = weights
    drawn = np.log(weights_of_all(lab, n, c1, c2))
    return every(
        equal("weights", weights, by_hand([s * c1, c1, *[c2] * (n - 2)])),
        equal("ln α_a/α_b", math.log(a / b), c1 * (s - 1), 1e-10),
        equal("number of s with α_a = α_b:", (np.abs(drawn[:, 0] - drawn[:, 1]) < 1e-9).sum(), 1),
    )


def mean_length_averages(lab: Lab, n: int, M: float, s: float) -> Finding:
    """s = 1 gives α_a = α_b; for two keys α_a(s) + α_a(2 - s) = 1, so E α_a = ½."""
    a, b, *_ = weights_at(lab, n, M, 1.0)
    shorter, longer = (weights_at(lab, 2, M, y)[0] for y in sorted((s, 2 - s)))
    law = one_head_law(M, 2)
    return every(
        equal("weights at s = 1:", [a, b], [averaging_weight(n, M)] * 2),
        equal("α_a(s) + α_a(2 - s):", shorter + longer, 1.0),
        equal("P(α_a < the smaller one)", law.below(shorter), math.erfc(abs(s - 1)) / 2),
        equal("E α_a", law.mean(), 0.5),
    )


def larger_norm_has_more_weight(lab: Lab, n: int, M: float, s: float) -> Finding:
    """α_a > α_b iff s > 1; the key of larger norm has less weight for s < -1, P = Φ(-2√2)."""
    a, b, *_ = weights = weights_at(lab, n, M, s)
    drawn = weights_of_all(lab, n, M)
    lengths = stratified_lengths(STRATA)
    loses = (np.abs(lengths) > 1) & (drawn[:, 0] < drawn[:, 1])
    wanted = NormalDist().cdf(-2 * math.sqrt(2))
    return every(
        equal("weights", weights, by_hand([s * M, M, *[0.0] * (n - 2)])),
        fact((a > b) == (s > 1) or abs(s - 1) < 1e-9, "α_a > α_b iff s > 1", "not iff s > 1"),
        equal("share where the larger norm has less", loses.mean(), wanted, ONE_STRATUM),
    )


# What the sheets say -------------------------------------------------------------------------


def varies_strongly(lab: Lab, n: int, L: float) -> Finding:
    """c varies between samples, as α_a does; here for q = -L Σ μ_i over the others."""
    variance = weights_of_all(lab, n, 0.0, -L)[:, 0].var()
    return at_least("variance of α_a", round(variance, 12), VARIES)  # without rounding errors


def half_at_the_mean(lab: Lab, n: int, c1: float, c2: float) -> Finding:
    """At s = 1 α_a and α_b are about ½."""
    means = lab.orthonormal(n)
    weights = one_head(means, means, family_query(means, [0, 1], c1, c2))[1]
    return equal("α_a, α_b", weights[:2], (0.5, 0.5), NEARLY)


# fmt: off
DRAWN = (one_head, family_query, lengthened, stratified_lengths)
CLAIMS = [
    Claim(
        "S000-c.ii.10", "127", TRUE,
        says="c can vary strongly with the sample",
        truth="logit α_a ~ N(M - ln(e^M + n - 2), M²/2), c is between v_a and a mean of others; if "
        "n = 2, ¼ - 1/(√π M) ≤ Var α_a ≤ ¼, and α_a has two modes if and only if M > 2",
        under_test=(*DRAWN, averaging_query, one_head_law, LogitNormal.modes),
        corrected=two_values_alternate,
        domain={"n": Whole(2, 8), "M": Real(0.1, 60)},
    ),
    Claim(
        "S000-c.ii.11", "127", CONDITIONAL,
        says="in this case a single head is not robust to the noise",
        truth="with that query it is not; q = -L Σ μ_i over the other keys has α_a = α_b = "
        "1/(2 + (n - 2)e^-L) for any norms of k_a and k_b",
        under_test=(repelling_query, one_head, lengthened), corrected=norms_do_not_matter,
        domain={"n": Whole(2, 8), "L": Real(0, 60), "y_a": Real(-5, 5), "y_b": Real(-5, 5)},
        literal=varies_strongly, witness={"n": 6, "L": 20.0},
    ),
    Claim(
        "S001-c.ii.9", "141", TRUE,
        says="v_a or v_b may have all weight in c",
        truth="this is right, and more frequent for larger M: P(η < α_a < 1 - η) = "
        "erf(ln((1 - η)/η)/M) for n = 2",
        under_test=(*DRAWN, one_head_law, LogitNormal.below), corrected=in_between,
        domain={"M": Real(0.1, 200), "eta": Real(0.001, 0.499)},
    ),
    Claim(
        "S002-c.2.2", "11", TRUE,
        says="α_a = α_b no longer holds",
        truth="true with probability 1: ln α_a/α_b = c_1(s - 1), which is 0 only for s = 1",
        under_test=DRAWN, corrected=equal_just_at_one,
        domain={"n": Whole(2, 8), "c1": Real(0.1, 30), "c2": Real(-20, 20), "s": Real(-5, 5)},
    ),
    Claim(
        "S002-c.2.5", "11", CONDITIONAL,
        says="c ≈ ½(v_a + v_b) at s = 1, the mean of s",
        truth="at s = 1 α_a = α_b = 1/(2 + (n - 2)e^-M), M = c_1 - c_2: about ½ if M - ln n ≫ 1; "
        "for n = 2 E α_a = ½, too",
        under_test=(one_head, averaging_query, averaging_weight, one_head_law),
        corrected=mean_length_averages,
        domain={"n": Whole(2, 8), "M": Real(0.1, 60), "s": Real(-4, 6)},
        literal=half_at_the_mean, witness={"n": 10, "c1": 0.01, "c2": 0.0001},
    ),
    Claim(
        "S002-c.2.6", "11", TRUE,
        says="c is closer to the value whose key has the larger norm",
        truth="true for s > -1: the key of larger norm has the larger weight; in a share of "
        "Φ(-2√2) = 0.0023 of draws s < -1, and k_a has the larger norm but less weight",
        under_test=(one_head, averaging_query, lengthened, stratified_lengths),
        corrected=larger_norm_has_more_weight,
        domain={"n": Whole(2, 8), "M": Real(0.1, 60), "s": Real(-5, 5)},
    ),
]
