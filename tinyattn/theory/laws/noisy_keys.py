"""Chapter 7: laws of one head with noisy keys.

The keys have orthonormal means μ_i. Either all keys have noise of norm δ, or noise of variance α in
each direction; or the norm of one key is random: k_a = y μ_a, y ~ N(1, ½). What is said about a
random y is checked on its quantiles, not on random draws.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole, by_hand, length
from tinyattn.theory.law import law
from tinyattn.theory.logit_normal import LogitNormal, logistic, one_head_distribution
from tinyattn.theory.noisy_keys import (
    lengthened,
    noisy_keys,
    one_head,
    stratified_lengths,
    window_bound,
)
from tinyattn.theory.queries import (
    averaging_query,
    averaging_weight,
    family_query,
    query_of,
    repelling_query,
)
from tinyattn.theory.weights import largest_move

PAGE = "10_noisy_keys"
STRATA = 1831
"""The number of quantiles that represent the distribution of y."""
ONE_STRATUM = 1.001 / STRATA
"""The largest difference of a share of the quantiles and its probability, with rounding."""
SMOOTH = 5e-5
"""The largest difference of means and variances over the quantiles of y and integrals."""
DRAWN = 4000
"""The number of random draws of noise in all directions."""


def weights_under(lab: Lab, keys: Tensor, query: Tensor) -> np.ndarray:
    """The weights of these keys under a query: (.., n)."""
    return one_head(keys, lab.normal(keys.shape[-2], 1), query)[1].numpy()


def first_lengthened(means: Tensor, lengths: Any) -> Tensor:
    """Keys y_i μ_i, with these factors y_1 of the first and 1 of the others: (.., n, D)."""
    first = np.asarray(lengths, dtype=np.float64)
    every_length = np.ones((*first.shape, means.shape[0]))
    every_length[..., 0] = first
    return lengthened(means, every_length)


def at_quantiles(lab: Lab, n: int, M: float) -> np.ndarray:
    """The weights α_a of k_a = y μ_a at the quantiles of y, for q = M(μ_a + μ_b): (N,)."""
    means = lab.orthonormal(n)
    keys = first_lengthened(means, stratified_lengths(STRATA))
    weights: np.ndarray = weights_under(lab, keys, averaging_query(means, [0, 1], M))[:, 0]
    return weights


def off_quantiles(distribution: LogitNormal, found: np.ndarray) -> float:
    """How far numbers at the quantiles of y differ at most from those of a distribution."""
    wanted = [distribution.quantile((i + 0.5) / STRATA) for i in range(0, STRATA, 10)]
    return float(np.abs(found[::10] - wanted).max())


# Small noise in every direction --------------------------------------------------------------


def diameter(values: np.ndarray) -> float:
    """The largest distance of two values."""
    return float(max(np.linalg.norm(x - y) for x in values for y in values))


def noises(lab: Lab, keys: Tensor, query: Tensor, delta: float) -> list[Tensor]:
    """Keys with noise of norm δ: along the query, and in random directions.

    Along the query the first key gains score and all others lose; if δ is negative, it loses.
    """
    ahead = np.array([1.0, *[-1.0] * (keys.shape[0] - 1)])
    norm = length(query)
    along = query * (delta / norm if norm else 0.0)
    g = lab.rng.standard_normal(keys.shape)
    anywhere = delta * g / np.linalg.norm(g, axis=1, keepdims=True)
    return [keys + lab.tensor(ahead[:, None]) * along, keys + lab.tensor(anywhere)]


@law(PAGE, one_head, query_of, family_query, averaging_weight, largest_move,
     n=Whole(2, 8), c1=Real(-20, 20), c2=Real(-20, 20), x=Real(0, 100),
     delta=Real(0, 1))  # fmt: skip
def noise_moves_weights(lab: Lab, n: int, c1: float, c2: float, x: float, delta: float) -> Finding:
    """Noise of norm δ in the keys moves weights by ½ Σ |Δα_i| ≤ tanh(|q|δ/2), for any query q.

    Two keys can attain it. For q = c_1(μ_a + μ_b) + c_2 Σ μ_i + x, where x ⟂ μ_i has no effect
    without noise, |q|² = 2c_1² + (n - 2)c_2² + |x|².
    """
    space = lab.orthonormal(n + 1)
    means, aside = space[:n], space[n]
    query, direction = family_query(means, [0, 1], c1, c2, aside * x), lab.normal(space.shape[1])
    norm = length(query)
    bound = largest_move([norm * delta, -norm * delta])
    across = aside * (norm * math.sqrt(1 - delta * delta))
    attaining = query_of(means[:2], [-norm * delta, 0.0]) + across
    moved, before = [], []
    for keys, q in (
        (means, query), (means, direction * (norm / length(direction))), (means[:2], attaining)
    ):  # fmt: skip
        before.append(weights_under(lab, keys, q))
        noisy = noises(lab, keys, q, delta)
        moved += [np.abs(weights_under(lab, k, q) - before[-1]).sum() / 2 for k in noisy]
    return every(
        equal("α_a without noise", before[0][0], averaging_weight(n, c1 - c2)),
        equal("|q|²", norm**2, 2 * c1**2 + (n - 2) * c2**2 + x**2, 1e-9),
        at_most("½ Σ |Δα_i| for noise along q:", moved[0], bound),
        at_most("½ Σ |Δα_i| for other noise and queries:", moved[1:], [bound] * 5),
        equal("the largest ½ Σ |Δα_i|", moved[4], bound),
        equal("bound", bound, math.tanh(norm * delta / 2)),
    )


@law(PAGE, one_head, averaging_query, window_bound,
     n=Whole(2, 8), M=Real(0, 30), delta=Real(0, 1))  # fmt: skip
def one_head_has_a_window(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """|c - ½(v_a + v_b)| ≤ diam(V)·((n - 2)/(n - 2 + 2e^M) + tanh(Mδ/√2)), if |k_i - μ_i| ≤ δ."""
    lab.conventions.needs("float64")
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    query, v = averaging_query(means, [0, 1], M), values.numpy()
    outputs = [
        one_head(keys, values, query)[0].numpy() for keys in noises(lab, means, query, delta)
    ]
    errors = [np.linalg.norm(c - (v[0] + v[1]) / 2) for c in outputs]
    pushed, rest = M * delta * math.sqrt(2), (n - 2) * math.exp(-M)
    bound = rest / (rest + 2) + math.tanh(M * delta / math.sqrt(2))
    worst = by_hand([M + pushed, M - pushed, *[-pushed] * (n - 2)])
    return every(
        equal("c in the worst case", outputs[0], worst @ v),
        at_most("|c - ½(v_a + v_b)|", errors, [diameter(v) * bound] * 2),
        equal("bound", window_bound(n, M, delta), bound),
    )


@law(PAGE, one_head, averaging_query, noisy_keys,
     M=Real(0.1, 100), x=Real(0, 100), alpha=Real(1e-6, 1))  # fmt: skip
def noise_splits_two_keys(lab: Lab, M: float, x: float, alpha: float) -> Finding:
    """Two keys, noise of variance α in each direction, q = M(μ_a + μ_b) + x, x ⟂ μ_i.

    logit α_a ~ N(0, 2α|q|²), |q|² = 2M² + |x|²: so α_a is near ½ only if |q| ≪ 1/√(2α).
    """
    space = lab.orthonormal(3)
    query = averaging_query(space[:2], [0, 1], M) + space[2] * x
    keys = noisy_keys(lab.rng, space[:2], alpha, [0.0, 0.0], DRAWN)
    scores, weights = ops.matmul(keys, query).numpy(), weights_under(lab, keys, query)
    deviation = math.sqrt(2 * alpha * (2 * M * M + x * x))
    exact = LogitNormal(0.0, deviation)
    off = np.mean([abs(exact.quantile((i + 0.5) / STRATA) - 0.5) for i in range(STRATA)])
    error = 6 / math.sqrt(DRAWN)
    return every(
        equal("largest error of a weight", np.abs(weights - by_hand(scores)).max(), 0.0),
        equal("deviation of logit α_a over √(2α)|q|", np.std(scores[:, 0] - scores[:, 1])
              / deviation, 1.0, error / math.sqrt(2)),
        equal("mean |α_a - ½|", np.abs(weights[:, 0] - 0.5).mean(), off, error / 4),
    )  # fmt: skip


# One key of any norm -------------------------------------------------------------------------


@law(PAGE, one_head, averaging_query, lengthened,
     n=Whole(2, 8), M=Real(0, 60), y=Real(-5, 5))  # fmt: skip
def a_factor_scales_one_score(lab: Lab, n: int, M: float, y: float) -> Finding:
    """For k_a = y μ_a the scores are y M, M and 0: α_a = e^{yM}/(e^{yM} + e^M + n - 2).

    α_b is e^M over the same sum, and 0 < α_i ≤ 1/(e^M + n - 2) for each other key. Without n - 2
    α_a and α_b are too large by a share of at most (n - 2)e^-M. Noise of norm δ along q adds √2 Mδ
    to a score.
    """
    lab.conventions.needs("float64")
    means, rest = lab.orthonormal(n), math.exp(-M)
    query, keys = averaging_query(means, [0, 1], M), first_lengthened(means, y)
    along = (means[0] + means[1]) * (1 / math.sqrt(2))
    scores = np.array([y * M, M, *[0.0] * (n - 2)])
    a, b, *others = weights_under(lab, keys, query)
    below = math.exp(M * (y - 1)) + 1 + (n - 2) * rest  # all divided by e^M
    without = logistic(M * (y - 1)), logistic(M * (1 - y))
    share, most = (n - 2) * rest / (1 + (n - 2) * rest), rest / (1 + (n - 2) * rest)
    return every(
        equal("scores", ops.matmul(keys, query), scores),
        equal("with noise:", ops.matmul(keys + along, query), scores + M * math.sqrt(2)),
        equal("α_a", a, math.exp(M * (y - 1)) / below),
        equal("α_b", b, 1 / below),
        equal("ln(α_a/α_b)", math.log(a / b), M * (y - 1), 1e-10),
        equal("α_i", others, [rest / below] * (n - 2)),
        equal("Σ α_i", sum(others), (n - 2) * rest / below),
        at_most("α_i", others, [most] * (n - 2)),
        fact(min(others, default=1) > 0, "α_i > 0", "α_i = 0"),
        at_most("α_a", a, math.exp(-M * (1 - y))),
        at_least("α_a, α_b without n - 2", without, (a, b)),
        at_most("excess without n - 2", np.subtract(without, (a, b)), np.multiply(without, share)),
    )


@law(PAGE, one_head, family_query, lengthened, stratified_lengths,
     n=Whole(2, 8), c1=Real(0.1, 30), c2=Real(-30, 30), y=Real(-5, 5))  # fmt: skip
def a_factor_above_one_leads(lab: Lab, n: int, c1: float, c2: float, y: float) -> Finding:
    """k_a = y μ_a, q = c_1(μ_a + μ_b) + c_2 Σ μ_i: the scores are y c_1, c_1 and c_2.

    So ln α_a/α_i = y c_1 - c_2, ln α_b/α_i = c_1 - c_2, and ln α_a/α_b = c_1(y - 1): for c_1 > 0,
    α_a > α_b if and only if y > 1. y < 0 has the probability Φ(-√2) = 0.0786; y < -1, where k_a has
    the larger norm but less weight, Φ(-2√2) = 0.0023; y = 1, where α_a = α_b, 0.
    """
    lab.conventions.needs("float64")
    means, lengths = lab.orthonormal(n), stratified_lengths(STRATA)
    query = family_query(means, [0, 1], c1, c2)
    weights = weights_under(lab, first_lengthened(means, y), query)
    a, b, *others = np.log(weights)
    log_a, log_b = np.log(weights_under(lab, first_lengthened(means, lengths), query)).T[:2]
    loses, below = (np.abs(lengths) > 1) & (log_a < log_b), NormalDist(1, math.sqrt(0.5)).cdf
    return every(
        equal("weights", weights, by_hand([y * c1, c1, *[c2] * (n - 2)])),
        equal("ln α_a/α_b", a - b, c1 * (y - 1), 1e-10),
        equal("ln α_a/α_i", a - others, [y * c1 - c2] * (n - 2), 1e-10),
        equal("ln α_b/α_i", b - others, [c1 - c2] * (n - 2), 1e-10),
        fact((a > b) == (y > 1) or abs(y - 1) < 1e-9, "α_a > α_b iff y > 1", "not iff y > 1"),
        equal("number of quantiles with α_a = α_b:", (np.abs(log_a - log_b) < 1e-9).sum(), 1),
        equal("share where the larger norm has less weight", loses.mean(), below(-1), ONE_STRATUM),
        equal("share with y < 0:", (lengths < 0).mean(), below(0), ONE_STRATUM),
    )


@law("11_two_heads", repelling_query, one_head, lengthened,
     n=Whole(2, 8), L=Real(0, 60), y_a=Real(-5, 5), y_b=Real(-5, 5))  # fmt: skip
def repelling_ignores_norms(lab: Lab, n: int, L: float, y_a: float, y_b: float) -> Finding:
    """q = -L Σ μ_i, i not a or b: α_a = α_b = 1/(2 + (n - 2)e^-L) for any norms of k_a and k_b.

    The query is orthogonal to both keys.
    """
    means, exact = lab.orthonormal(n), 1 / (2 + (n - 2) * math.exp(-L))
    query, keys = repelling_query(means, [0, 1], L), lengthened(means, [y_a, y_b, *[1] * (n - 2)])
    drawn = weights_under(lab, first_lengthened(means, stratified_lengths(STRATA)), query)
    return every(
        equal("α_a, α_b", weights_under(lab, keys, query)[:2], [exact, exact]),
        equal("variance of α_a for random y:", round(drawn[:, 0].var(), 12), 0.0),
    )


# One key of random norm ----------------------------------------------------------------------


@law(PAGE, one_head, averaging_query, lengthened, stratified_lengths, one_head_distribution,
     LogitNormal.modes, LogitNormal.below,
     M=Real(0.1, 200), eta=Real(0.001, 0.499))  # fmt: skip
def two_keys_alternate(lab: Lab, M: float, eta: float) -> Finding:
    """Two keys, k_a = y μ_a, y ~ N(1, ½): P(η < α_a < 1 - η) = erf(ln((1 - η)/η)/M).

    logit α_a ~ N(0, M²/2), so the mean of α_a is ½, as α_a(y) + α_a(2 - y) = 1. Its variance is
    from ¼ - 1/(√π M) to ¼. It has two modes if and only if M > 2.
    """
    a, exact = at_quantiles(lab, 2, M), one_head_distribution(M, 2)
    least, modes = 0.25 - 1 / (math.sqrt(math.pi) * M), exact.modes()
    between = math.erf(math.log((1 - eta) / eta) / M)
    findings = [
        equal("largest error of the quantiles", off_quantiles(exact, a), 0.0),
        equal("mean of α_a", (a.mean(), exact.mean()), (0.5, 0.5)),
        equal("α_a(y) + α_a(2 - y) - 1:", np.abs(a + a[::-1] - 1).max(), 0.0),
        at_least("variance of α_a", (a.var(), exact.variance()), (least, least), SMOOTH),
        at_most("variance of α_a", (a.var(), exact.variance()), (0.25, 0.25)),
        equal("share in between", ((a > eta) & (a < 1 - eta)).mean(), between, ONE_STRATUM),
        equal("probability in between", exact.below(1 - eta) - exact.below(eta), between),
    ]
    if abs(M - 2) > 0.01:  # near 2 the two modes are too close
        findings.append(equal("number of modes", len(modes), 1 + (M > 2)))
    if M < 37:  # for larger M e^(-M²/2) is too small for float64
        low = min(modes)  # the other mode is 1 - low, with fewer exact digits
        logit = math.log(low) - math.log1p(-low)
        findings.append(equal("logit of the first mode", logit, M**2 * (low - 0.5), 1e-9))
    return every(*findings)
