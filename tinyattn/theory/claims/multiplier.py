"""Chapter 7: question 1 (c), the keys' law, k ~ N(μ, αI + ½μμᵀ), and the random length y in it.

Most slips here are slips of the pen, but one is not: a variance of ½ is read as a range of ½, or of
1, on either side. Laws of y are checked without chance, on the middles of many equally likely
parts; only what `noisy_keys` draws is counted, and then 6 standard errors are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.finding import EXACT, NEARLY, Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.noisy_keys import lengthened, noisy_keys, stratified_lengths
from tinyattn.theory.queries import query_of
from tinyattn.theory.subspace import projector

NEARLY_ALWAYS = 0.95
"""What a range must hold of the draws to be called theirs: two deviations to each side do."""
STRATA = 1831
"""How many lengths stand for the law of y: enough for shares with four true digits."""
ONE_STRATUM = 1.001 / STRATA
"""As far as a share of the lengths may be from its probability, and a rounding error."""
KEYS_DRAWN = 20_000
"""With noise: a variance found has a standard error of 1 %."""


def first_lengthened(means: Tensor, lengths: Any) -> Tensor:
    """Keys of which the first has these lengths and the others length 1: (.., n, D)."""
    first = np.asarray(lengths, dtype=np.float64)
    every_length = np.ones((*first.shape, means.shape[0]))
    every_length[..., 0] = first
    return lengthened(means, every_length)


def lengths_seen(lab: Lab, variance: float) -> np.ndarray:
    """How long k_a = y μ_a is along μ_a, over the law of y: (N,)."""
    means = lab.orthonormal(2)
    keys = first_lengthened(means, stratified_lengths(STRATA, variance))
    return ops.matmul(keys, means[0]).numpy()[:, 0]


def share_backwards(lab: Lab, variance: float, alpha: float) -> float:
    """Of keys y μ_a + √α g, how many have an angle of more than 90° with μ_a."""
    along = 1 if alpha == 0 else 101
    noise = math.sqrt(alpha) * (stratified_lengths(along, 1.0) - 1)
    lengths = (stratified_lengths(STRATA, variance)[:, None] + noise).ravel()
    mean = lab.orthonormal(1)
    across = lab.normal(len(lengths), 1, mean.shape[1])
    across = (across - ops.matmul(across, mean[0])[..., None] * mean) * math.sqrt(alpha)
    keys = lengthened(mean, lengths[:, None]) + across
    return float((ops.matmul(keys, mean[0]).numpy() < 0).mean())


# What is true --------------------------------------------------------------------------------


def key_is_near_its_mean(lab: Lab, n: int, alpha: float) -> Finding:
    """k_i = μ_i + √α g_i: the same draws with another α are so much closer, and nothing else."""
    means, seed, unmoved = lab.orthonormal(n), int(lab.rng.integers(2**32)), [0.0] * n
    one, other = (
        (noisy_keys(np.random.default_rng(seed), means, a, unmoved, 100) - means).numpy()
        for a in (1.0, alpha)
    )
    error = math.sqrt(2 / one.size)  # of the mean of so many squares of normal numbers
    return every(
        equal("k_i - μ_i - √α g_i, at most", np.abs(other - math.sqrt(alpha) * one).max(), 0.0),
        equal("mean of g²", (one**2).mean(), 1.0, 6 * error),
    )


def key_has_the_covariance(lab: Lab, alpha: float, variance: float) -> Finding:
    """μ_a·k_a has mean 1 and variance r + α, anything across has mean 0 and variance α."""
    means = lab.orthonormal(2, extra=0)
    keys = noisy_keys(lab.rng, means, alpha, [variance, 0.0], KEYS_DRAWN)
    along, across = ops.matmul(keys, means.swapaxes(-1, -2)).numpy()[:, 0].T
    v, w = variance + alpha, alpha
    error = 6 / math.sqrt(KEYS_DRAWN)
    return every(
        equal("mean along μ_a", along.mean(), 1.0, error * math.sqrt(v) + EXACT),
        equal("variance along μ_a", along.var(), v, error * v * math.sqrt(2) + EXACT),
        equal("mean across", across.mean(), 0.0, error * math.sqrt(w) + EXACT),
        equal("variance across", across.var(), w, error * w * math.sqrt(2) + EXACT),
        equal("covariance", np.cov(along, across)[0, 1], 0.0, error * math.sqrt(v * w) + EXACT),
    )


def norm_is_random(lab: Lab, variance: float) -> Finding:
    """|k_a| = |y|, with a mean of √(2r/π) e^(-1/2r) + erf(1/√(2r)); that of y is 1."""
    y, r = stratified_lengths(STRATA, variance), variance
    keys = first_lengthened(lab.orthonormal(2), y)
    norms = (keys * keys).sum(axis=-1).numpy()[:, 0] ** 0.5
    mean = math.sqrt(2 * r / math.pi) * math.exp(-1 / (2 * r)) + math.erf(1 / math.sqrt(2 * r))
    return every(
        equal("|k_a| - |y|, at most", np.abs(norms - np.abs(y)).max(), 0.0),
        equal("mean of |k_a|", norms.mean(), mean, 1e-3),
        equal("mean of μ_a·k_a", lengths_seen(lab, r).mean(), 1.0),
    )


def multiplier_has_the_variance(lab: Lab, variance: float) -> Finding:
    """y has mean 1 and variance r; of the latter a thousandth is lost with the ends of the law."""
    y = lengths_seen(lab, variance)
    return every(
        equal("mean of y", y.mean(), 1.0),
        equal("its variance", y.var(), variance, 0.002 * variance),
    )


def share_within(lab: Lab, t: float, variance: float) -> Finding:
    """P(|y - 1| ≤ t) = erf(t/√(2r))."""
    share = (np.abs(lengths_seen(lab, variance) - 1) <= t).mean()
    return equal(f"share within 1 ± {t:.3g}", share, math.erf(t / math.sqrt(2 * variance)),
                 ONE_STRATUM)  # fmt: skip


def square_is_a_multiple(lab: Lab, d: int, norm: float) -> Finding:
    """P = μμᵀ is symmetric, with trace |μ|² and P² = |μ|²P: a projection just if |μ| = 1."""
    unit = lab.tensor(lab.orthonormal(1, d - 1).numpy().T)
    p, once = projector(unit * norm), projector(unit)
    return every(
        equal("PP - |μ|²P", ops.matmul(p, p) - p * norm**2, np.zeros((d, d)), 1e-9),
        equal("P - Pᵀ", p - p.swapaxes(-1, -2), np.zeros((d, d))),
        equal("trace", np.trace(p.numpy()), norm**2),
        equal("PP - P for |μ| = 1", ops.matmul(once, once) - once, np.zeros((d, d))),
    )


def backwards_by_chance(lab: Lab, variance: float, alpha: float) -> Finding:
    """P(μ_a·k_a < 0) = Φ(-1/√(r + α))."""
    wanted = NormalDist().cdf(-1 / math.sqrt(variance + alpha))
    return every(
        multiplier_has_the_variance(lab, variance),
        equal("share pointing backwards", share_backwards(lab, variance, alpha), wanted, 0.002),
    )


# What the sheets say -------------------------------------------------------------------------


def query_is_near_a_mean(lab: Lab, scores: Sequence[float], i: int) -> Finding:
    """The query with these scores is about μ_i."""
    means = lab.orthonormal(len(scores))
    apart = (query_of(means, scores) - means[i]).numpy()
    return at_most("|q - μ_i|", np.linalg.norm(apart), NEARLY)


def components_have_mean_one(lab: Lab, mean: Sequence[float]) -> Finding:
    """k_a ~ N(1, ½), read number by number."""
    keys = lengthened(lab.tensor([mean]), stratified_lengths(STRATA)[:, None])
    return equal("mean of k_a", keys.mean(axis=0).reshape(-1), np.ones(len(mean)))


def length_at(quantile: float) -> float:
    """The length that is not exceeded with this probability, y ~ N(1, ½)."""
    return NormalDist(1, math.sqrt(0.5)).inv_cdf(quantile)


def norm_is_one(lab: Lab, quantile: float) -> Finding:
    """The norm of k_a is 1."""
    key = first_lengthened(lab.orthonormal(2), length_at(quantile))[0]
    return equal("|k_a|", np.linalg.norm(key.numpy()), 1.0, NEARLY)


def length_is_the_variance(lab: Lab, quantile: float) -> Finding:
    """The length of k_a along μ_a is the variance, ½."""
    means = lab.orthonormal(2)
    key = first_lengthened(means, length_at(quantile))[0]
    return equal("μ_a·k_a", ops.matmul(means[0], key), 0.5, NEARLY)


def nearly_always_within(lab: Lab, t: float, variance: float) -> Finding:
    """y stays within 1 ± t."""
    share = (np.abs(lengths_seen(lab, variance) - 1) <= t).mean()
    return at_least(f"share within [{1 - t:g}, {1 + t:g}]", share, NEARLY_ALWAYS)


# fmt: off
VARIANCES, ALPHAS, HALVES = Real(0.02, 3), Real(0, 1), Real(0, 4)
CLAIMS = [
    Claim(
        "S000-c.ii.0", "79", TYPO,
        says="for i ≠ a the query q is about μ",
        truth="the key k_i is about μ_i: k_i - μ_i = √α g_i",
        under_test=(noisy_keys,),
        corrected=key_is_near_its_mean, domain={"n": Whole(1, 8), "alpha": ALPHAS},
        literal=query_is_near_a_mean, witness={"scores": (10.0, 10.0, 0.0), "i": 2},
    ),
    Claim(
        "S000-c.ii.1", "81-83", TYPO,
        says="k_a ~ N(1, ½)",
        truth="k_a = y μ_a + √α g, y ~ N(1, ½): a vector, of which only μ_a·k_a ~ N(1, ½ + α)",
        under_test=(noisy_keys,),
        corrected=key_has_the_covariance, domain={"alpha": ALPHAS, "variance": VARIANCES},
        literal=components_have_mean_one, witness={"mean": (0.6, 0.8)},
    ),
    Claim(
        "S000-c.ii.2", "85", TYPO,
        says="the normal distribution has norm 1 and variance ½",
        truth="it has mean 1; the norm of k_a is |y|, which is random and 1.05 on average",
        under_test=(lengthened, stratified_lengths),
        corrected=norm_is_random, domain={"variance": VARIANCES},
        literal=norm_is_one, witness={"quantile": 0.95},
    ),
    Claim(
        "S000-c.ii.3", "92, 146", CONDITIONAL,
        says="y ~ N(1, ½) swings between about 0 and about 2",
        truth="P(|y - 1| ≤ t) = erf(t): so do 84.3 % of the draws; 95 % lie in [-0.386, 2.386]",
        under_test=(lengthened, stratified_lengths),
        corrected=share_within, domain={"t": HALVES, "variance": VARIANCES},
        literal=nearly_always_within, witness={"t": 1.0, "variance": 0.5},
    ),
    Claim(
        "S000-c.ii.4", "92", TYPO,
        says="ε is equal to the variance",
        truth="ε is the random length y itself; its variance is ½",
        under_test=(lengthened, stratified_lengths),
        corrected=multiplier_has_the_variance, domain={"variance": VARIANCES},
        literal=length_is_the_variance,
        witness={"quantile": 0.75},
    ),
    Claim(
        "S001-c.ii.1", "111", FALSE,
        says="k_a lies in [0.5 μ_a, 1.5 μ_a]",
        truth="P(½ ≤ y ≤ 1½) = erf(½) = 0.52: half of the draws do not; line 112 has the law",
        under_test=(lengthened, stratified_lengths),
        corrected=share_within, domain={"t": HALVES, "variance": VARIANCES},
        literal=nearly_always_within, witness={"t": 0.5, "variance": 0.5},
    ),
    Claim(
        "S001-c.ii.2", "112", TRUE,
        says="k_a = y μ_a, y ~ N(1, 0.5)",
        truth="for vanishing α, as the question has it; 0.5 is the variance, exactly ½ + α",
        under_test=(noisy_keys,),
        corrected=key_has_the_covariance, domain={"alpha": ALPHAS, "variance": VARIANCES},
    ),
    Claim(
        "S002-c.2.3", "11", TRUE,
        says="μ_a μ_aᵀ is a projection because μ_a has norm 1",
        truth="(μμᵀ)² = |μ|² μμᵀ: just if it has",
        under_test=(projector,),
        corrected=square_is_a_multiple, domain={"d": Whole(1, 8), "norm": Real(0, 10)},
    ),
    Claim(
        "S002-c.2.4", "11", TRUE,
        says="k_a ≈ s μ_a, s ~ N(1, 0.5)",
        truth="for vanishing α, as the question has it; along μ_a the variance is ½ + α, and "
        "across it a deviation of √α stays in each direction",
        under_test=(noisy_keys,),
        corrected=key_has_the_covariance, domain={"alpha": ALPHAS, "variance": VARIANCES},
    ),
    Claim(
        "S004-c.3", "116", CONDITIONAL, of_question=True,
        says="k_a still points in roughly the direction of μ_a",
        truth="it points backwards with probability Φ(-1/√(½ + α)), 0.0786 for vanishing α",
        under_test=(lengthened, stratified_lengths),
        corrected=backwards_by_chance, domain={"variance": VARIANCES, "alpha": Real(0, 0.5)},
        literal=lambda lab, variance: at_most(
            "share pointing backwards", share_backwards(lab, variance, 0.0), 1 - NEARLY_ALWAYS
        ),
        witness={"variance": 0.5},
    ),
]
