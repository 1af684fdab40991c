"""Chapter 7: laws of two heads, and of one, over many samples of the factor y of one key.

k_a = y μ_a, y ~ N(1, ½), and the other keys stay at their means. The queries are q_1 = M μ_a and
q_2 = M μ_b, so the scores of the second head do not depend on y. In the first v_a has the largest
weight while y > 0, for large M nearly all. So most variance comes from y < 0, one draw in thirteen.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import law
from tinyattn.theory.laws.noisy_keys import (
    ONE_STRATUM,
    SMOOTH,
    STRATA,
    first_lengthened,
    off_quantiles,
)
from tinyattn.theory.laws.two_heads import PAGE, pair, single
from tinyattn.theory.logit_normal import (
    one_head_distribution,
    total_variance,
    two_head_distribution,
)
from tinyattn.theory.noisy_keys import lengthened, one_head, stratified_lengths, two_heads
from tinyattn.theory.queries import averaging_query, copying_query, family_query

RELATIVE = 2e-3
"""The share of a variance that the quantiles of y may miss at the tails."""
AHEAD = NormalDist().cdf(math.sqrt(2))
"""p = P(y > 0), y ~ N(1, ½): 0.921."""
SAME_VARIANCE = 1.1166
"""The M at which one and two heads have the same variance, for three values with v_a = v_b."""


def missing(lab: Lab, n: int, M: float, y: np.ndarray) -> np.ndarray:
    """1 - α_a in the first head, for these factors y."""
    means = lab.orthonormal(n)
    keys, query = first_lengthened(means, y), copying_query(means, 0, M)
    others: np.ndarray = one_head(keys, means, query)[1].numpy()[:, 1:].sum(axis=1)
    return others


def lengths_ahead() -> np.ndarray:
    """Quantiles of y given y > 0."""
    of_y = NormalDist(1, math.sqrt(0.5))
    return np.array([of_y.inv_cdf(1 - AHEAD * (i + 0.5) / STRATA) for i in range(STRATA)])


@law(PAGE, one_head, averaging_query, copying_query, lengthened, stratified_lengths,
     one_head_distribution, two_head_distribution, n=Whole(2, 8), M=Real(0.1, 60))  # fmt: skip
def weights_are_logit_normal(lab: Lab, n: int, M: float) -> Finding:
    """In one head logit α_a ~ N(M - ln(e^M + n - 2), M²/2), if k_a = y μ_a, y ~ N(1, ½).

    So c = α_a v_a + (1 - α_a)(e^M v_b + Σ v_i)/(e^M + n - 2). In the first of two heads logit α_a
    ~ N(M - ln(n - 1), M²/2). For n = 2 this α_a has one mode at M = 3.5 and two at M = 4, and its
    variance tends to p(1 - p) = 0.0725, p = Φ(√2).
    """
    means, values, y = lab.orthonormal(n), lab.normal(n, 3), stratified_lengths(STRATA)
    c, weights = single(first_lengthened(means, y), means, values, M)
    a, v, of_one, of_two = (
        weights[:, :1], values.numpy(), one_head_distribution(M, n), two_head_distribution(M, n)
    )  # fmt: skip
    w = (v[1] + v[2:].sum(axis=0) * math.exp(-M)) / (1 + (n - 2) * math.exp(-M))
    modes = [len(two_head_distribution(size, 2).modes()) for size in (3.5, 4)]
    late, limit = two_head_distribution(1e5, 2).variance(), AHEAD * (1 - AHEAD)
    return every(
        equal("one head: error of the quantiles", off_quantiles(of_one, a[:, 0]), 0.0),
        equal("distance of c from the line", np.abs(c - a * v[0] - (1 - a) * w).max(), 0.0),
        equal("mean of α_a", of_one.mean(), a.mean(), SMOOTH),
        equal("variance of α_a", of_one.variance(), a.var(), SMOOTH),
        equal("two: error of the quantiles", off_quantiles(of_two, 1 - missing(lab, n, M, y)), 0.0),
        equal("number of modes, n = 2, M = 3.5 and 4:", modes, [1, 2]),
        equal("variance, M → ∞:", late, limit, 1e-3),
    )


@law(PAGE, family_query, lengthened, stratified_lengths,
     own=Real(0.5, 30), ratio=Real(-5, 0.95))  # fmt: skip
def own_key_mostly_leads(lab: Lab, own: float, ratio: float) -> Finding:
    """If a_2 < a_1 in q_1 = a_1 μ_a + a_2 Σ μ_i, k_a leads with probability Φ(√2(1 - a_2/a_1)).

    Here k_a = y μ_a, y ~ N(1, ½), and a_1 > 0; for a_1 = 0 > a_2 it always leads. If a_4 < a_3 in
    q_2 = a_3 μ_b + a_4 Σ μ_i, k_b leads unless y a_4 > a_3. This has the probability
    Φ(√2(1 - a_3/a_4)), with -√2 for √2 if a_4 < 0, and 0 if a_4 = 0. `own` is a_1 or a_3, and
    `ratio` is a_2/a_1 or a_4/a_3.
    """
    means, normal = lab.orthonormal(3), NormalDist()
    keys, root = first_lengthened(means, stratified_lengths(STRATA)), math.copysign(2**0.5, ratio)

    def scores(head: int, own: float, rest: float) -> np.ndarray:
        found: np.ndarray = ops.matmul(keys, family_query(means, [head], own, rest)).numpy()
        return found

    both = [scores(head, own, own * ratio) for head in (0, 1)]
    leads = [(s.argmax(axis=1) == head).mean() for head, s in enumerate(both)]
    lost = normal.cdf(root * (1 - 1 / ratio)) if ratio else 0.0
    without = scores(0, 0.0, -own).argmax(axis=1) == 0
    mean = own * np.where(np.eye(3)[:2], 1, ratio)  # as the mean of y is 1
    return every(
        equal("mean scores of both heads", np.mean(both, axis=1), mean),
        equal("share where k_a leads", leads[0], normal.cdf(2**0.5 * (1 - ratio)), ONE_STRATUM),
        equal("share where k_b leads", leads[1], 1 - lost, ONE_STRATUM),
        equal("share for a_1 = 0 > a_2:", without.mean(), 1.0),
    )


def variances(lab: Lab, values: Tensor, M: float) -> tuple[float, float]:
    """The variances of the outputs over y, summed over elements: one head, and two."""
    means = lab.orthonormal(values.shape[0])
    keys = first_lengthened(means, stratified_lengths(STRATA))
    outputs = [heads(keys, means, values, M)[0] for heads in (single, pair)]
    by_one, by_two = (float(c.var(axis=0).sum()) for c in outputs)
    return by_one, by_two


def known_variances(values: Tensor, M: float) -> list[float]:
    """The same by the formulas."""
    return [total_variance(values, 0, 1, M, heads) for heads in (1, 2)]


@law(PAGE, two_heads, one_head, total_variance, one_head_distribution, two_head_distribution,
     n=Whole(2, 8), M=Real(0.1, 20))  # fmt: skip
def variances_are_known(lab: Lab, n: int, M: float) -> Finding:
    """The variance of c is Var α_a|v_a - w|² for one head, for two ¼Var α_a|v_a - v̄|².

    α_a is the weight in this head, or in the first of two, for k_a = y μ_a, y ~ N(1, ½); w is the
    mean of the other values with the weights e^M for v_b and 1 for the rest, v̄ their plain mean.
    For n = 2 two heads have 4 to 14 times less variance.
    """
    values = lab.normal(n, 3)
    factor = 4 * one_head_distribution(M, 2).variance() / two_head_distribution(M, 2).variance()
    found, two_keys = variances(lab, values, M), variances(lab, lab.orthonormal(2, 0), M)
    over_formula = np.divide(found, known_variances(values, M))
    return every(
        equal("sample variances over formula", over_formula, [1, 1], RELATIVE),
        equal("ratio for two keys", np.divide(*two_keys), factor, factor * RELATIVE),
        at_least("ratio for two keys", factor, 4),
        at_most("ratio for two keys", factor, 14.01),
    )


@law(PAGE, two_heads, one_head, total_variance)
def two_heads_divide_the_variance(lab: Lab) -> Finding:
    """For large M two heads divide the variance by 2(n - 1)/(n p(1 - p)), p = Φ(√2).

    This is for orthonormal values. For n = 2 it is 13.80, but 14.00 at M = 20.8, and 4 for M → 0;
    for n → ∞ it tends to 27.6.
    """

    def factor(n: int, M: float) -> float:
        by_one, by_two = known_variances(lab.tensor(np.eye(n)), M)
        return by_one / by_two

    limit, top = 1 / (AHEAD * (1 - AHEAD)), factor(2, 20.8)
    values = lab.tensor(np.eye(2))
    over_sample = np.divide(known_variances(values, 20), variances(lab, values, 20))
    return every(
        equal("formula over sample variances", over_sample, [1, 1], RELATIVE),
        equal("factor for n = 2, M → 0:", factor(2, 1e-3), 4, 1e-3),
        equal("at M = 20.8:", top, 14.00, 0.005),
        at_least("at M = 20.8 against M = 15 and 30:", [top] * 2, [factor(2, 15), factor(2, 30)]),
        equal("n = 2, M → ∞:", factor(2, 1e5), limit, 1e-3),
        equal("n = 400, M → ∞:", factor(400, 1e5), 2 * 399 / 400 * limit, 0.01),
    )


@law(PAGE, two_heads, one_head, total_variance, M=Real(0.01, 20), distance=Real(1, 100))
def an_outlier_reverses_the_order(lab: Lab, M: float, distance: float) -> Finding:
    """For three values with v_a = v_b two heads have a larger variance than one from M = 1.12 on.

    For M → 0 they have ¼ of it.
    """
    values = lab.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, distance]])
    found, start = variances(lab, values, M), known_variances(values, 1e-3)
    compare = at_least if M > SAME_VARIANCE else at_most
    over_sample = np.divide(known_variances(values, M), found)
    return every(
        equal("formula over sample variances", over_sample, [1, 1], RELATIVE),
        compare("variance of two heads over that of one", found[1] / found[0], 1, RELATIVE),
        equal("this ratio for M → 0:", start[1] / start[0], 0.25, 1e-3),
    )


@law(PAGE, one_head, copying_query, lengthened, n=Whole(2, 8), M=Real(20, 200))
def error_falls_like_one_over_m(lab: Lab, n: int, M: float) -> Finding:
    """Given y > 0 the mean of 1 - α_a in the first head is about ln n/(e√π Φ(√2) M) = 0.225 ln n/M.

    It is larger by a factor of at most 1 + 4/M; k_a = y μ_a, y ~ N(1, ½). For n = 2 it is 0.156/M.
    """
    found = missing(lab, n, M, lengths_ahead()).mean()
    wanted = math.log(n) / (math.e * math.sqrt(math.pi) * AHEAD * M)
    return every(
        at_least("mean of 1 - α_a for y > 0:", found, wanted),
        at_most("mean of 1 - α_a for y > 0:", found, wanted * (1 + 4 / M)),
    )


@law(PAGE, two_heads, one_head, copying_query, lengthened, stratified_lengths, total_variance,
     n=Whole(2, 8), M=Real(100, 1000))  # fmt: skip
def ignored_draws_cause_the_variance(lab: Lab, n: int, M: float) -> Finding:
    """For large M the variance of c is ¼p(1 - p)d², its bias ½(1 - p)d, d = |v_a - v̄|, p = Φ(√2).

    Both come from y < 0, 1 - p = 0.0786 of all draws: then c_1 is v̄, the mean of the other values.
    """
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    v, y, p = values.numpy(), stratified_lengths(STRATA), AHEAD
    c, ahead, negative = (
        pair(first_lengthened(means, lengths), means, values, M)[0]
        for lengths in (y, lengths_ahead(), np.array([-0.5]))
    )
    off, to_a = c - (v[0] + v[1]) / 2, v[0] - v[1:].mean(axis=0)
    d, near = float(np.linalg.norm(to_a)), (0.6 / M + ONE_STRATUM) / 4
    limit = total_variance(values, 0, 1, 1e6, 2)
    early = missing(lab, n, M, np.array([1 / M]))
    return every(
        equal("1 - α_a in head 1 at y = 1/M:", early, [(n - 1) / (n - 1 + math.e)]),
        equal("share with y < 0:", (y < 0).mean(), 1 - p, ONE_STRATUM),
        equal("c at y = -½:", negative[0], (v[1:].mean(axis=0) + v[1]) / 2),
        equal("variance", off.var(axis=0).sum(), p * (1 - p) / 4 * d * d, near * d * d),
        equal("variance, M = 10⁶:", limit, p * (1 - p) / 4 * d * d, 1e-4 * d * d),
        equal("mean square error", (off**2).sum(axis=1).mean(), (1 - p) / 4 * d * d, near * d * d),
        equal("bias", off.mean(axis=0), (p - 1) / 2 * to_a, 2 * near * d),
        at_most("variance given y > 0:", ahead.var(axis=0).sum(), 0.1 * d * d * math.log(n) / M),
    )
