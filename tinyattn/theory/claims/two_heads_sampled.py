"""Chapter 7: question 1 (d) ii, the outputs of two heads over many samples of the factor y.

The scores of the second head do not depend on y. In the first head v_a has the largest weight
while y > 0, for large M nearly all. So most variance comes from y < 0, one draw in thirteen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, OPEN, TRUE, Claim
from tinyattn.theory.claims.multiplier import (
    NEARLY_ALWAYS,
    ONE_STRATUM,
    STRATA,
    first_lengthened,
)
from tinyattn.theory.claims.one_head_sampled import in_between
from tinyattn.theory.claims.two_heads import pair
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import one_head_law, total_variance, two_head_law
from tinyattn.theory.noisy_keys import lengthened, one_head, stratified_lengths, two_heads
from tinyattn.theory.queries import averaging_query, copying_query, family_query
from tinyattn.theory.weights import lead_needed

RELATIVE = 2e-3
"""The share of a variance that the quantiles of y may miss at the tails."""
AHEAD = NormalDist().cdf(math.sqrt(2))
"""P(y > 0), y ~ N(1, ½): 0.921."""


def outputs(lab: Lab, values: Tensor, M: float) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of one head, and of two, at the quantiles of y: (N, E)."""
    means = lab.orthonormal(values.shape[0])
    keys = first_lengthened(means, stratified_lengths(STRATA))
    one = one_head(keys, values, averaging_query(means, [0, 1], M))[0].numpy()
    return one, pair(keys, means, values, M)[0]


def variances(lab: Lab, values: Tensor, M: float) -> tuple[float, float]:
    """The variances of the outputs, summed over elements: one head, and two."""
    one, two = outputs(lab, values, M)
    return float(one.var(axis=0).sum()), float(two.var(axis=0).sum())


def scores_of_head(lab: Lab, own: float, rest: float, head: int) -> np.ndarray:
    """The scores of three keys at the quantiles of y, for a query of answer sheet 002: (N, 3)."""
    means = lab.orthonormal(3)
    keys = first_lengthened(means, stratified_lengths(STRATA))
    scores: np.ndarray = ops.matmul(keys, family_query(means, [head], own, rest)).numpy()
    return scores


def share_led(lab: Lab, own: float, rest: float, head: int) -> float:
    """The share of the quantiles of y at which the head's own key has the largest score."""
    return float((scores_of_head(lab, own, rest, head).argmax(axis=1) == head).mean())


def as_on_average(lab: Lab, own: float, rest: float, head: int) -> Finding:
    """The mean of y is 1, so the mean scores are the coefficients in the query."""
    wanted = [own if i == head else rest for i in range(3)]
    return equal("mean scores", scores_of_head(lab, own, rest, head).mean(axis=0), wanted)


def first_head_missing(lab: Lab, n: int, M: float, lengths: np.ndarray) -> np.ndarray:
    """1 - α_a in the first head, for these factors y."""
    means = lab.orthonormal(n)
    keys = first_lengthened(means, lengths)
    missing: np.ndarray = one_head(keys, means, copying_query(means, 0, M))[1].numpy()[:, 1:].sum(1)
    return missing


def lengths_ahead() -> np.ndarray:
    """Quantiles of y given y > 0."""
    law = NormalDist(1, math.sqrt(0.5))
    return np.array([law.inv_cdf(1 - AHEAD * (i + 0.5) / STRATA) for i in range(STRATA)])


# What is true --------------------------------------------------------------------------------


def variance_is_known(lab: Lab, n: int, M: float) -> Finding:
    """The variances are Var α_a|v_a - w|² and ¼Var α_a|v_a - v̄|²; n = 2: the ratio is 4 to 14."""
    values = ops.concatenate([lab.normal(n, 3), lab.tensor(np.ones((n, 1)))], axis=1)
    known = [total_variance(values, 0, 1, M, heads) for heads in (1, 2)]
    factor = 4 * one_head_law(M, 2).variance() / two_head_law(M, 2).variance()
    heads = outputs(lab, values, M)  # the last elements are sums of weights
    found, engine = variances(lab, values, M), np.divide(*variances(lab, lab.orthonormal(2, 0), M))
    return every(
        *(equal("sum of the weights", c[:, 3].mean(), 1.0) for c in heads),
        equal("sample variances over formula", np.divide(found, known), [1, 1], RELATIVE),
        equal("ratio for two keys", engine, factor, factor * RELATIVE),
        at_least("ratio for two keys", factor, 4),
        at_most("ratio for two keys", factor, 14.01),
    )


def first_head_leads(lab: Lab, a_1: float, ratio: float) -> Finding:
    """P(k_a·q_1 > k_i·q_1) = Φ(√2(1 - a_2/a_1)), and 1 for a_1 = 0 > a_2."""
    wanted = NormalDist().cdf(math.sqrt(2) * (1 - ratio))
    return every(
        as_on_average(lab, a_1, a_1 * ratio, 0),
        equal("share where k_a leads", share_led(lab, a_1, a_1 * ratio, 0), wanted, ONE_STRATUM),
        equal("share for a_1 = 0 > a_2:", share_led(lab, 0.0, -a_1, 0), 1.0),
    )


def second_head_leads(lab: Lab, a_3: float, ratio: float) -> Finding:
    """k_a·q_2 = s a_4: P(k_a·q_2 > k_b·q_2) = Φ(√2(1 - a_3/a_4)), with -√2 if a_4 < 0."""
    root = math.copysign(math.sqrt(2), ratio)
    lost = NormalDist().cdf(root * (1 - 1 / ratio)) if ratio else 0.0
    return every(
        as_on_average(lab, a_3, a_3 * ratio, 1),
        equal("share where k_b leads", share_led(lab, a_3, a_3 * ratio, 1), 1 - lost, ONE_STRATUM),
    )


def error_falls_like_one_over_m(lab: Lab, n: int, M: float) -> Finding:
    """E[1 - α_a given y > 0] is ln n/(e√π Φ(√2) M), or larger by a factor of at most 1 + 4/M."""
    missing = first_head_missing(lab, n, M, lengths_ahead()).mean()
    wanted = math.log(n) / (math.e * math.sqrt(math.pi) * AHEAD * M)
    return every(
        at_least("mean of 1 - α_a:", missing, wanted),
        at_most("mean of 1 - α_a:", missing, wanted * (1 + 4 / M)),
    )


def one_in_thirteen_is_all(lab: Lab, n: int, M: float) -> Finding:
    """As M grows c has variance ¼p(1 - p)d² and bias ½(1 - p)d, d = |v_a - v̄|, p = P(y > 0)."""
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    v, lengths = values.numpy(), stratified_lengths(STRATA)
    c = pair(first_lengthened(means, lengths), means, values, M)[0]
    c_ahead = pair(first_lengthened(means, lengths_ahead()), means, values, M)[0]
    c_negative = one_head(first_lengthened(means, -0.5), values, copying_query(means, 0, M))[0]
    rest, p = v[1:].mean(axis=0), AHEAD
    off, to_a = c - (v[0] + v[1]) / 2, v[0] - rest
    d = float(np.linalg.norm(to_a))
    near = (0.6 / M + ONE_STRATUM) / 4
    early = first_head_missing(lab, n, M, np.array([1 / M]))
    return every(
        equal("mean of y", lengths.mean(), 1.0),
        equal("1 - α_a in head 1 at y = 1/M:", early, [(n - 1) / (n - 1 + math.e)]),
        equal("share with y < 0:", (lengths < 0).mean(), 1 - p, ONE_STRATUM),
        equal("c_1 at y = -½:", c_negative, rest),
        equal("variance", off.var(axis=0).sum(), p * (1 - p) / 4 * d * d, near * d * d),
        equal("mean square error", (off**2).sum(axis=1).mean(), (1 - p) / 4 * d * d, near * d * d),
        equal("bias", off.mean(axis=0), (p - 1) / 2 * to_a, 2 * near * d),
        at_most("variance given y > 0:", c_ahead.var(axis=0).sum(), 0.1 * d * d * math.log(n) / M),
    )


# What the sheets say -------------------------------------------------------------------------


def variance_falls(lab: Lab, values: Sequence[Sequence[float]], M: float) -> Finding:
    """Two heads have less variance than one."""
    one, two = variances(lab, lab.tensor(values), M)
    return at_most("variance of two heads against one:", two, one)


def first_head_far_ahead(lab: Lab, a_1: float, a_2: float, s: float) -> Finding:
    """A factor s > 0 gives k_a a lead that is large enough for a weight of 0.99."""
    means = lab.orthonormal(3)
    scores = ops.matmul(first_lengthened(means, s), family_query(means, [0], a_1, a_2)).numpy()
    return at_least("lead of k_a·q_1", scores[0] - scores[1:].max(), lead_needed(3, NEARLY))


# fmt: off
CLAIMS = [
    Claim(
        "S000-d.ii.2", "148", CONDITIONAL,
        says="averaging reduces the variance of c",
        truth="it is Var σ(My - ln(e^M + n - 2))·|v_a - w|² for one head, for two "
        "¼Var σ(My - ln(n - 1))·|v_a - v̄|²; 4 to 14 times less for n = 2 (w, v̄: weighted, plain "
        "mean of the others); but for large M it increases if v_a is near v_b and far from others",
        under_test=(two_heads, one_head, total_variance, two_head_law),
        corrected=variance_is_known, domain={"n": Whole(2, 8), "M": Real(0.1, 20)},
        literal=variance_falls, witness={"values": ((0.0,), (0.0,), (10.0,)), "M": 20.0},
    ),
    Claim(
        "S001-d.ii.1", "165", TRUE,
        says="one head may give all weight to v_a or to v_b if k_a varies strongly",
        truth="it may, see S001-c.ii.9: P(η < α_a < 1 - η) = erf(ln((1 - η)/η)/M) for n = 2",
        under_test=(one_head, family_query, stratified_lengths, one_head_law),
        corrected=in_between,
        domain={"M": Real(0.1, 200), "eta": Real(0.001, 0.499)},
    ),
    Claim(
        "S002-d.2.1", "13", CONDITIONAL,
        says="in spite of the noise we expect k_a·q_1 ≫ k_i·q_1",
        truth="P(k_a·q_1 < k_i·q_1) = Φ(√2(a_2/a_1 - 1)): 0.0786 at a_2 = 0, 0.0023 at -a_1, and 0 "
        "for a_1 = 0 > a_2",
        under_test=(family_query, lengthened, stratified_lengths), corrected=first_head_leads,
        domain={"a_1": Real(0.5, 30), "ratio": Real(-5, 0.95)},
        literal=first_head_far_ahead, witness={"a_1": 20.0, "a_2": 0.0, "s": 0.05},
    ),
    Claim(
        "S002-d.2.2", "13", CONDITIONAL,
        says="k_b·q_2 ≫ k_i·q_2 for all i other than b",
        truth="k_a·q_2 = s a_4, so the noise changes the scores of the second head if a_4 ≠ 0",
        under_test=(family_query, lengthened, stratified_lengths), corrected=second_head_leads,
        domain={"a_3": Real(0.5, 30), "ratio": Real(-5, 0.95)},
        literal=lambda lab, a_3, a_4: at_least(
            "share where k_b leads", share_led(lab, a_3, a_4, 1), NEARLY_ALWAYS
        ),
        witness={"a_3": 20.0, "a_4": 10.0},
    ),
    Claim(
        "S002-d.2.3", "13", CONDITIONAL,
        says="so c_1 ≈ v_a",
        truth="even given s > 0 the mean of 1 - α_a is ln n/(e√π Φ(√2) M), for n = 2 0.156/M, "
        "and not e^-M",
        under_test=(one_head, copying_query, lengthened), corrected=error_falls_like_one_over_m,
        domain={"n": Whole(2, 8), "M": Real(20, 200)},
        literal=lambda lab, n, M: at_most(
            "mean of 1 - α_a for s > 0:",
            first_head_missing(lab, n, M, lengths_ahead()).mean(), NEARLY,
        ),
        witness={"n": 2, "M": 10.0},
    ),
    Claim(
        "S004-d", "130", OPEN, of_question=True,
        says="one may ignore draws with k_a·q_1 < 0",
        truth="this is a permission; they are 0.0786 of all draws; for M → ∞ they cause all "
        "variance, 0.0181|v_a - v̄|², and a bias of 0.0393|v_a - v̄|; v̄ is the other values' mean",
        under_test=(two_heads, copying_query, lengthened, stratified_lengths),
        corrected=one_in_thirteen_is_all, domain={"n": Whole(2, 8), "M": Real(100, 1000)},
    ),
]
