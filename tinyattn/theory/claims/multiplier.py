"""Chapter 7: question 1 (c), the distribution of keys k ~ N(μ, αI + ½μμᵀ), and the factor y.

k_a = y μ_a for α = 0, with y ~ N(1, ½). Most errors here are misprints, but two answer sheets take
the variance ½ for a range of ½, or of 1, on either side. Statements about y are checked on its
quantiles, not on random draws; draws of `noisy_keys` may differ by 6 standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import EXACT, NEARLY, Finding, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.noisy_keys import ONE_STRATUM, STRATA, first_lengthened
from tinyattn.theory.noisy_keys import lengthened, noisy_keys, stratified_lengths
from tinyattn.theory.queries import query_of
from tinyattn.theory.subspace import projector

NEARLY_ALWAYS = 0.95
"""The share of draws that a range must contain; about two standard deviations to each side."""
KEYS_DRAWN = 20_000
"""The number of random draws; a sample variance then has a standard error of 1 %."""
VARIANCES = Real(0.02, 3)
"""Those of y; in the question it is ½."""


def lengths_seen(lab: Lab, variance: float) -> np.ndarray:
    """μ_a·k_a for k_a = y μ_a, at the quantiles of y: (N,)."""
    means = lab.orthonormal(2)
    keys = first_lengthened(means, stratified_lengths(STRATA, variance))
    return ops.matmul(keys, means[0]).numpy()[:, 0]


@check(noisy_keys, n=Whole(1, 8), alpha=Real(0, 1))
def key_is_near_its_mean(lab: Lab, n: int, alpha: float) -> Finding:
    """k_i = μ_i + √α g_i: for the same draws k_i - μ_i is proportional to √α."""
    means, seed, unmoved = lab.orthonormal(n), int(lab.rng.integers(2**32)), [0.0] * n
    one, other = (
        (noisy_keys(np.random.default_rng(seed), means, a, unmoved, 100) - means).numpy()
        for a in (1.0, alpha)
    )
    error = math.sqrt(2 / one.size)  # the standard error of the mean of so many squares
    return every(
        equal("largest |k_i - μ_i - √α g_i|", np.abs(other - math.sqrt(alpha) * one).max(), 0.0),
        equal("mean of g²", (one**2).mean(), 1.0, 6 * error),
    )


@check(noisy_keys, alpha=Real(0, 1), variance=VARIANCES)
def key_has_the_covariance(lab: Lab, alpha: float, variance: float) -> Finding:
    """k_a = y μ_a + √α g, y ~ N(1, r): mean 1 and variance r + α along μ_a, 0 and α across it."""
    means = lab.orthonormal(2, extra=0)
    keys = noisy_keys(lab.rng, means, alpha, [variance, 0.0], KEYS_DRAWN)
    along, across = ops.matmul(keys, means.swapaxes(-1, -2)).numpy()[:, 0].T
    v, w = variance + alpha, alpha
    error = 6 / math.sqrt(KEYS_DRAWN)
    return every(
        equal("mean along μ_a", along.mean(), 1.0, error * math.sqrt(v) + EXACT),
        equal("variance along μ_a", along.var(), v, error * v * math.sqrt(2) + EXACT),
        equal("mean across μ_a:", across.mean(), 0.0, error * math.sqrt(w) + EXACT),
        equal("variance across μ_a", across.var(), w, error * w * math.sqrt(2) + EXACT),
        equal("covariance", np.cov(along, across)[0, 1], 0.0, error * math.sqrt(v * w) + EXACT),
    )


@check(lengthened, stratified_lengths, variance=VARIANCES)
def norm_is_random(lab: Lab, variance: float) -> Finding:
    """|k_a| = |y|, with the mean √(2r/π) e^(-1/2r) + erf(1/√(2r)), if y ~ N(1, r)."""
    y, r = stratified_lengths(STRATA, variance), variance
    keys = first_lengthened(lab.orthonormal(2), y)
    norms = (keys * keys).sum(axis=-1).numpy()[:, 0] ** 0.5
    mean = math.sqrt(2 * r / math.pi) * math.exp(-1 / (2 * r)) + math.erf(1 / math.sqrt(2 * r))
    return every(
        equal("largest difference of |k_a| and |y|", np.abs(norms - np.abs(y)).max(), 0.0),
        equal("mean of |k_a|", norms.mean(), mean, 1e-3),
        equal("mean of μ_a·k_a", lengths_seen(lab, r).mean(), 1.0),
    )


@check(lengthened, stratified_lengths, variance=VARIANCES)
def multiplier_has_the_variance(lab: Lab, variance: float) -> Finding:
    """The quantiles of y ~ N(1, r) have mean 1 and nearly the variance r; they miss the tails."""
    y = lengths_seen(lab, variance)
    return every(
        equal("mean of y", y.mean(), 1.0),
        equal("variance of y", y.var(), variance, 0.002 * variance),
    )


@check(lengthened, stratified_lengths, t=Real(0, 4), variance=VARIANCES)
def share_within(lab: Lab, t: float, variance: float) -> Finding:
    """P(|y - 1| ≤ t) = erf(t/√(2r)) for y ~ N(1, r)."""
    share = (np.abs(lengths_seen(lab, variance) - 1) <= t).mean()
    wanted = math.erf(t / math.sqrt(2 * variance))
    return equal("share of y within 1 ± t:", share, wanted, ONE_STRATUM)


@check(projector, d=Whole(1, 8), norm=Real(0, 10))
def square_is_a_multiple(lab: Lab, d: int, norm: float) -> Finding:
    """P = μμᵀ is symmetric, with trace |μ|², and P² = |μ|²P: it is a projection only if |μ| = 1."""
    unit = lab.tensor(lab.orthonormal(1, d - 1).numpy().T)
    p, once = projector(unit * norm), projector(unit)
    return every(
        equal("PP - |μ|²P", ops.matmul(p, p) - p * norm**2, np.zeros((d, d)), 1e-9),
        equal("P - Pᵀ", p - p.swapaxes(-1, -2), np.zeros((d, d))),
        equal("trace", np.trace(p.numpy()), norm**2),
        equal("PP - P for |μ| = 1", ops.matmul(once, once) - once, np.zeros((d, d))),
    )


@check(lengthened, stratified_lengths, variance=VARIANCES, alpha=Real(0, 0.5))
def backwards_by_chance(lab: Lab, variance: float, alpha: float) -> Finding:
    """P(μ_a·k_a < 0) = Φ(-1/√(r + α)) for k_a = y μ_a + √α g, y ~ N(1, r)."""
    along = 1 if alpha == 0 else 101  # the number of quantiles of the noise along μ_a
    noise = math.sqrt(alpha) * (stratified_lengths(along, 1.0) - 1)
    lengths = (stratified_lengths(STRATA, variance)[:, None] + noise).ravel()
    mean = lab.orthonormal(1)
    across = lab.normal(len(lengths), 1, mean.shape[1])
    across = (across - ops.matmul(across, mean[0])[..., None] * mean) * math.sqrt(alpha)
    keys = lengthened(mean, lengths[:, None]) + across
    share = (ops.matmul(keys, mean[0]).numpy() < 0).mean()
    wanted = NormalDist().cdf(-1 / math.sqrt(variance + alpha))
    return equal("share with μ_a·k_a < 0:", share, wanted, 0.002)


def query_is_near_a_mean(lab: Lab, scores: Sequence[float], i: int) -> Finding:
    """The query with these scores is near μ_i."""
    means = lab.orthonormal(len(scores))
    apart = (query_of(means, scores) - means[i]).numpy()
    return at_most("|q - μ_i|", np.linalg.norm(apart), NEARLY)


# fmt: off
CLAIMS = [
    Claim(
        "S000-c.ii.0", "79", TYPO,
        says="for i ≠ a the query q is approximately μ",
        truth="the key k_i is meant, which is approximately μ_i: k_i - μ_i = √α g_i",
        check=key_is_near_its_mean,
        literal=query_is_near_a_mean, witness={"scores": (10.0, 10.0, 0.0), "i": 2},
    ),
    Claim(
        "S000-c.ii.1", "81-83", TYPO,
        says="k_a ~ N(1, ½)",
        truth="k_a = y μ_a + √α g with y ~ N(1, ½) is a vector; only μ_a·k_a ~ N(1, ½ + α)",
        check=key_has_the_covariance,
        literal=key_has_the_covariance.gives("mean across μ_a", 1),
        witness={"alpha": 0.01, "variance": 0.5},
    ),
    Claim(
        "S000-c.ii.2", "85", TYPO,
        says="the normal distribution has norm 1 and variance ½",
        truth="the mean is 1; the norm of k_a is |y|, which is random, and 1.05 on average",
        check=norm_is_random,
        literal=norm_is_random.gives("mean of |k_a|", 1), witness={"variance": 0.5},
    ),
    Claim(
        "S000-c.ii.3", "92, 146", CONDITIONAL,
        says="y ~ N(1, ½) is between about 0 and about 2",
        truth="P(|y - 1| ≤ t) = erf(t): 84.3 % of draws are in [0, 2]; 95 % are in [-0.386, 2.386]",
        check=share_within,
        literal=share_within.gives_at_least("share of y within 1 ± t", NEARLY_ALWAYS),
        witness={"t": 1.0, "variance": 0.5},
    ),
    Claim(
        "S000-c.ii.4", "92", TYPO,
        says="ε is equal to the variance",
        truth="ε is the random factor y itself; its variance is ½",
        check=multiplier_has_the_variance,
        literal=multiplier_has_the_variance.gives("mean of y", lambda variance: variance),
        witness={"variance": 0.5},
    ),
    Claim(
        "S001-c.ii.1", "111", FALSE,
        says="k_a is between 0.5 μ_a and 1.5 μ_a",
        truth="P(½ ≤ y ≤ 1½) = erf(½) = 0.52: about half of the draws are not; line 112 is right",
        check=share_within,
        literal=share_within.gives_at_least("share of y within 1 ± t", NEARLY_ALWAYS),
        witness={"t": 0.5, "variance": 0.5},
    ),
    Claim(
        "S001-c.ii.2", "112", TRUE,
        says="k_a = y μ_a, y ~ N(1, 0.5)",
        truth="true for vanishing α, as in the question; 0.5 is the variance, exactly ½ + α",
        check=key_has_the_covariance,
    ),
    Claim(
        "S002-c.2.3", "11", TRUE,
        says="μ_a μ_aᵀ is a projection because μ_a has norm 1",
        check=square_is_a_multiple,
    ),
    Claim(
        "S002-c.2.4", "11", TRUE,
        says="k_a ≈ s μ_a, s ~ N(1, 0.5)",
        truth="true for vanishing α, as in the question; along μ_a the variance is ½ + α, and in "
        "each direction across it the standard deviation is √α",
        check=key_has_the_covariance,
    ),
    Claim(
        "S004-c.3", "116", CONDITIONAL, of_question=True,
        says="k_a still points roughly in the direction of μ_a",
        truth="μ_a·k_a is below 0 with probability Φ(-1/√(½ + α)), 0.0786 for vanishing α",
        check=backwards_by_chance,
        literal=backwards_by_chance.gives_at_most("share with μ_a·k_a < 0", 1 - NEARLY_ALWAYS),
        witness={"variance": 0.5, "alpha": 0.0},
    ),
]
