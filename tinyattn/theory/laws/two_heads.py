"""Chapter 7: laws of two heads, c = ½(c_1 + c_2), and how they compare with one.

If no other queries are named, q_1 = M μ_a and q_2 = M μ_b, and one head has q = M(μ_a + μ_b).
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import law
from tinyattn.theory.laws.noisy_keys import diameter, first_lengthened, noises
from tinyattn.theory.noisy_keys import one_head, two_heads, window_bound
from tinyattn.theory.queries import (
    averaging_error,
    averaging_query,
    copying_query,
    distribution_query,
    family_query,
)
from tinyattn.theory.weights import imbalance, weight_bounds

PAGE = "11_two_heads"
SAME_LENGTH = 1.3315446
"""The M with 2e^M = 1 + e^(√2 M): above it two heads with queries of equal norm err less."""


def pair(keys: Tensor, means: Tensor, values: Tensor, M: float) -> list[np.ndarray]:
    """Output and weights of two heads with the queries M μ_a and M μ_b."""
    first, second = copying_query(means, 0, M), copying_query(means, 1, M)
    return [t.numpy() for t in two_heads(keys, values, first, second)]


def single(keys: Tensor, means: Tensor, values: Tensor, M: float) -> list[np.ndarray]:
    """Output and weights of one head with the query M(μ_a + μ_b)."""
    return [t.numpy() for t in one_head(keys, values, averaging_query(means, [0, 1], M))]


# Fixed keys ----------------------------------------------------------------------------------


@law(PAGE, two_heads, one_head, n=Whole(2, 8), M=Real(0, 60), y=Real(-5, 5))
def heads_are_averaged(lab: Lab, n: int, M: float, y: float) -> Finding:
    """c = ½(c_1 + c_2); the weights ½(α_1 + α_2) are not negative and sum to 1."""
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    keys = first_lengthened(means, y)
    heads = [copying_query(means, 0, M), lab.normal(means.shape[1])]
    c, weights = (t.numpy() for t in two_heads(keys, values, *heads))
    alone = [[t.numpy() for t in one_head(keys, values, q)] for q in heads]
    return every(
        equal("c", c, (alone[0][0] + alone[1][0]) / 2),
        equal("weights", weights, (alone[0][1] + alone[1][1]) / 2),
        at_least("weights", weights, np.zeros(n), 0),
        equal("their sum", weights.sum(), 1.0),
    )


@law(PAGE, two_heads, one_head, distribution_query,
     n=Whole(2, 8), t=Real(-0.99, 0.99), rest=Real(1e-9, 0.1))  # fmt: skip
def only_the_sum_is_determined(lab: Lab, n: int, t: float, rest: float) -> Finding:
    """Heads with the weights p(1 ± t) and p(1 ∓ t) for v_a and v_b have the same c for all t."""
    means, values, half = lab.orthonormal(n), lab.normal(n, 3), (1 - (n - 2) * rest) / 2
    others = [rest] * (n - 2)
    queries = [
        distribution_query(means, [half * (1 + s), half * (1 - s), *others]) for s in (t, -t)
    ]
    (c_1, first), (c_2, _) = (one_head(means, values, q) for q in queries)
    c, weights = two_heads(means, values, *queries)
    return every(
        equal("weights", weights, [half, half, *others]),
        equal("α_a in the first head", first[0], half * (1 + t)),
        equal("c_1 + c_2 - 2c", c_1 + c_2 - c * 2, np.zeros(3)),
    )


@law("07_copying", one_head, family_query,
     n=Whole(2, 8), a_1=Real(-30, 30), a_2=Real(-30, 30), x=Real(0, 100))  # fmt: skip
def only_a_difference_copies(lab: Lab, n: int, a_1: float, a_2: float, x: float) -> Finding:
    """q_1 = a_1 μ_a + a_2 Σ μ_i + x, x ⟂ μ_i: α_a = 1/(1 + (n - 1)e^-(a_1 - a_2)), for all x.

    So the difference a_1 - a_2 must be large, not the ratio.
    """
    space = lab.orthonormal(n + 1)
    query = family_query(space[:n], [0], a_1, a_2, space[n] * x)
    weight = one_head(space[:n], space[:n], query)[1].numpy()[0]
    return equal("α_a", weight, 1 / (1 + (n - 1) * math.exp(a_2 - a_1)))


@law(PAGE, one_head, two_heads, averaging_query, copying_query, averaging_error,
     n=Whole(3, 8), M=Real(0, 30))  # fmt: skip
def two_heads_err_more(lab: Lab, n: int, M: float) -> Finding:
    """Without noise the other values have the weight (n - 2)/(n - 1 + e^M) in the output.

    In that of one head they have (n - 2)/(n - 2 + 2e^M), which is less for M > 0, but at least half
    as much. c - ½(v_a + v_b) is this weight times (mean of the others - ½(v_a + v_b)). With queries
    of equal norm two heads err less for M > 1.33.
    """
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    v, (c, weights) = values.numpy(), pair(means, means, values, M)
    middle, others = (v[0] + v[1]) / 2, v[2:].mean(axis=0)
    by_one, by_two, as_long = (
        averaging_error(n, M * r, heads) for r, heads in ((1, 1), (1, 2), (2**0.5, 2))
    )
    ahead = 1 if M > SAME_LENGTH else -1
    return every(
        equal("c - ½(v_a + v_b)", c - middle, by_two * (others - middle)),
        equal("weight of the others", weights[2:].sum(), by_two),
        equal("error of two heads", by_two, (n - 2) / (n - 1 + math.exp(M))),
        equal("c - ½(v_a + v_b) of one head", single(means, means, values, M)[0] - middle,
              by_one * (others - middle)),
        at_least("error of two heads", by_two, by_one),
        at_most("error of two heads", by_two, 2 * by_one),
        at_most("signed excess, queries of equal norm:", ahead * (as_long - by_one), 0, 1e-5),
    )  # fmt: skip


@law(PAGE, two_heads, copying_query, n=Whole(2, 8), M=Real(0, 60), y=Real(-5, 5))
def no_value_has_all(lab: Lab, n: int, M: float, y: float) -> Finding:
    """If k_a = y μ_a, y ≥ 0, no value has a larger weight than ½ + 1/(2n).

    For y < 0 the largest possible weight is ½ + ½/(n - 1), which is 1 for n = 2.
    """
    means = lab.orthonormal(n)
    _, weights = pair(first_lengthened(means, y), means, lab.normal(n, 1), M)
    power, rest = math.exp(M * y), math.exp(-M)
    others = 1 / (power + n - 1) + rest / (1 + (n - 1) * rest)
    on_a = power / (power + n - 1) + rest / (1 + (n - 1) * rest)
    on_b = 1 / (power + n - 1) + 1 / (1 + (n - 1) * rest)
    most = 0.5 + 0.5 / (n if y >= 0 else n - 1)
    return every(
        equal("weights times 2", weights * 2, [on_a, on_b, *[others] * (n - 2)]),
        at_most("the largest weight", weights.max(), most),
    )


# Small noise in every direction --------------------------------------------------------------


@law(PAGE, one_head, copying_query, weight_bounds,
     n=Whole(2, 8), M=Real(0, 60), delta=Real(0, 0.5))  # fmt: skip
def each_head_keeps_a_lead(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """With noise of norm δ each head keeps a lead of M(1 - 2δ) or more, so M may be large.

    α_a in the first head, and α_b in the second, is at least 1/(1 + (n - 1)e^-lead).
    """
    lab.conventions.needs("float64")
    means, found = lab.orthonormal(n), []
    exact = weight_bounds(M * (1 - 2 * delta), n)[0]
    for j in (0, 1):
        query, own_first = copying_query(means, j, M), means[[j, 1 - j, *range(2, n)]]
        noisy = noises(lab, own_first, query, -delta)
        found += [one_head(keys, means, query)[1].numpy()[0] for keys in noisy]
    return every(
        equal("least α of both heads", found[::2], [exact, exact]),
        at_least("α of both heads", found[1::2], [exact, exact]),
    )


@law(PAGE, one_head, two_heads, averaging_query, copying_query, imbalance, window_bound,
     n=Whole(2, 8), M=Real(0, 1000), delta=Real(0, 0.5))  # fmt: skip
def noise_splits_one_head_only(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """In one head noise of norm δ can make α_a - α_b = tanh(√2 Mδ)·(α_a + α_b): more for larger M.

    k_a then moves along the query, k_b against it. The error of one head is at most
    diam(V)·((n - 2)/(n - 2 + 2e^M) + tanh(Mδ/√2)), that of two heads diam(V)·x/(1 + x),
    x = (n - 1)e^(-M(1 - 2δ)). diam(V) is the largest distance of two values.
    """
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    along = (means[0] + means[1]) * (delta / math.sqrt(2))
    keys = ops.concatenate([(means[0] + along)[None], (means[1] - along)[None], means[2:]])
    c, (a, b, *_) = single(keys, means, values, M)
    v, rival = values.numpy(), (n - 1) * math.exp(-M * (1 - 2 * delta))
    errors = [np.linalg.norm(x - (v[0] + v[1]) / 2) for x in (c, pair(keys, means, values, M)[0])]
    share, most = a / (a + b) - 0.5, diameter(v)
    return every(
        equal("α_a/(α_a + α_b) - ½:", share, math.tanh(math.sqrt(2) * M * delta) / 2),
        equal("by `imbalance`:", share, imbalance(2 * math.sqrt(2) * M * delta)),
        at_most("error of one head", errors[0], most * window_bound(n, M, delta)),
        at_most("error of two heads", errors[1], most * rival / (1 + rival)),
    )
