"""Chapter 7: question 1 (d), two heads, one for each value: q_1 = M μ_a, q_2 = M μ_b.

Without noise their error is larger than that of one head, but they tolerate more noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, TYPO, Claim
from tinyattn.theory.claims.copying import lead_decides
from tinyattn.theory.claims.multiplier import first_lengthened
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Domain, Lab, Real, Whole
from tinyattn.theory.noisy_keys import one_head, two_heads
from tinyattn.theory.queries import (
    averaging_error,
    copying_query,
    distribution_query,
    family_query,
    query_of,
)
from tinyattn.theory.weights import weight_bounds

SAME_LENGTH = 1.3315446
"""The M with 2e^M = 1 + e^(√2 M): above it two heads with queries of equal norm err less."""


def pair(keys: Tensor, means: Tensor, values: Tensor, M: float) -> list[np.ndarray]:
    """Output and weights of two heads with the queries M μ_a and M μ_b."""
    first, second = copying_query(means, 0, M), copying_query(means, 1, M)
    return [t.numpy() for t in two_heads(keys, values, first, second)]


# What is true --------------------------------------------------------------------------------


def only_the_sum_is_forced(lab: Lab, n: int, t: float, rest: float) -> Finding:
    """Heads with the weights ½ ± t and ½ ∓ t for v_a and v_b have the same c for all t."""
    means, values, half = lab.orthonormal(n), lab.normal(n, 3), (1 - (n - 2) * rest) / 2
    others = [rest] * (n - 2)
    first, second = (
        distribution_query(means, [half * (1 + s), half * (1 - s), *others]) for s in (t, -t)
    )
    c, weights = two_heads(means, values, first, second)
    return every(
        equal("weights", weights, [half, half, *others]),
        equal("c_1 + c_2 - 2c", one_head(means, values, first)[0]
              + one_head(means, values, second)[0] - c * 2, np.zeros(3)),
    )  # fmt: skip


def two_err_more(lab: Lab, n: int, M: float) -> Finding:
    """Without noise c - ½(v_a + v_b) is (n - 2)/(n - 1 + e^M) times (mean of others - ½(..))."""
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    v, (c, _) = values.numpy(), pair(means, means, values, M)
    middle, others = (v[0] + v[1]) / 2, v[2:].mean(axis=0)
    one, two, as_long = (averaging_error(n, M * r, h) for r, h in ((1, 1), (1, 2), (2**0.5, 2)))
    ahead = 1 if M > SAME_LENGTH else -1
    return every(
        equal("c - ½(v_a + v_b)", c - middle, two * (others - middle)),
        equal("error of two heads", two, (n - 2) / (n - 1 + math.exp(M))),
        at_least("error of two heads", two, one),
        at_most("error of two heads", two, 2 * one),
        at_most("signed excess, queries of equal norm:", ahead * (as_long - one), 0, 1e-5),
    )


def noise_shortens_the_lead(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """With noise of norm δ each head has a lead of M(1 - 2δ) at least, so M may be large."""
    means, found = lab.orthonormal(n), []
    g = lab.rng.standard_normal(means.shape)
    anywhere = means + lab.tensor(delta * g / np.linalg.norm(g, axis=1, keepdims=True))
    exact = weight_bounds(M * (1 - 2 * delta), n)[0]
    for j in (0, 1):
        query, pushed = copying_query(means, j, M), np.full((n, 1), delta)
        pushed[j] = -delta
        for keys in (means + lab.tensor(pushed) * means[j], anywhere):
            found.append(one_head(keys, means, query)[1].numpy()[j])
    return every(
        equal("least α", found[::2], [exact, exact]), at_least("α", found[1::2], [exact, exact])
    )


def average_of_the_heads(lab: Lab, n: int, M: float, y: float) -> Finding:
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


def weights_of_two(lab: Lab, n: int, M: float, y: float) -> Finding:
    """A value has a weight of at most ½ + 1/(2n) if y ≥ 0, and ½ + ½/(n - 1) for all y."""
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


def family_copies(lab: Lab, n: int, a_1: float, a_2: float, x: float) -> Finding:
    """α_a = 1/(1 + (n - 1)e^-(a_1 - a_2)), for all x."""
    space = lab.orthonormal(n + 1)
    means = space[:n]
    query = family_query(means, [0], a_1, a_2, space[n] * x)
    weight = one_head(means, means, query)[1].numpy()[0]
    return equal("α_a", weight, 1 / (1 + (n - 1) * math.exp(a_2 - a_1)))


# What the sheets say -------------------------------------------------------------------------


def heads_copy(lab: Lab, first: Sequence[float], second: Sequence[float]) -> Finding:
    """Heads with these scores average v_a and v_b, so c_1 is v_a."""
    means = lab.orthonormal(len(first))
    queries = [query_of(means, scores) for scores in (first, second)]
    middle = two_heads(means, means, *queries)[1].numpy()
    if not equal("weights", middle[:2], [0.5, 0.5], NEARLY).holds:
        return Finding(True, "c is no average of v_a and v_b, so the claim does not apply")
    return equal("c averages v_a and v_b, and α_a in the first head is",
                 one_head(means, means, queries[0])[1].numpy()[0], 1.0, NEARLY)  # fmt: skip


def copies_if_ahead_of_others(lab: Lab, scores: Sequence[float]) -> Finding:
    """The first score is far above all except the second, so its weight is 1."""
    means = lab.orthonormal(len(scores))
    return equal("α_a", one_head(means, means, query_of(means, scores))[1].numpy()[0], 1.0, NEARLY)


def two_average(lab: Lab, n: int, M: float) -> Finding:
    """Without noise, the other values have almost no weight in the output of two heads."""
    means = lab.orthonormal(n)
    return at_most("weight of the other values", pair(means, means, means, M)[1][2:].sum(), NEARLY)


# fmt: off
SIZES: Domain = {"n": Whole(2, 8), "M": Real(0, 60)}
GIVEN: Domain = {**SIZES, "y": Real(-5, 5)}
PAIR = (two_heads, copying_query)
CLAIMS = [
    Claim(
        "S000-d.i.1", "133-135", FALSE,
        says="c = ½(c_1 + c_2) = ½(v_a + v_b), so c_1 = v_a and c_2 = v_b",
        truth="it is a good choice, but only c_1 + c_2 = v_a + v_b follows",
        under_test=(two_heads, one_head, distribution_query), corrected=only_the_sum_is_forced,
        domain={"n": Whole(2, 8), "t": Real(-0.99, 0.99), "rest": Real(1e-9, 0.1)},
        literal=heads_copy, witness={"first": (20.0, 20.0, 0.0), "second": (20.0, 20.0, 0.0)},
    ),
    Claim(
        "S000-d.i.2", "139-140", TYPO,
        says="c_1 = v_a needs k_a·q_1 ≫ k_i·q_1 for i other than a and b",
        truth="all i other than a are meant, as in the next step, q_1 = M μ_a: the lead over k_b "
        "is needed, too",
        under_test=(ops.attention, weight_bounds),
        corrected=lead_decides, domain={"n": Whole(2, 40), "lead": Real(0, 40)},
        literal=copies_if_ahead_of_others, witness={"scores": (20.0, 20.0, 0.0, 0.0)},
    ),
    Claim(
        "S000-d.i.3", "139-140", CONDITIONAL,
        says="q_1 = M μ_a, q_2 = M μ_b give c ≈ ½(v_a + v_b)",
        truth="the mean of the others has the weight (n - 2)/(n - 1 + e^M) in c; without noise "
        "this is up to twice the error of one head",
        under_test=(*PAIR, averaging_error), corrected=two_err_more,
        domain={"n": Whole(3, 8), "M": Real(0, 30)},
        literal=two_average, witness={"n": 1000, "M": 5.0},
    ),
    Claim(
        "S000-d.ii.1", "148", TRUE,
        says="the output is always the average of c_1 and c_2",
        truth="this is the definition; its weights ½(α_1 + α_2) are a distribution, too",
        under_test=(two_heads, one_head), corrected=average_of_the_heads, domain=GIVEN,
    ),
    Claim(
        "S001-d.i", "151-160", CONDITIONAL,
        says="q_1 = M μ_a copies v_a, q_2 = M μ_b copies v_b",
        truth="α = 1/(1 + (n - 1)e^-M) without noise; with noise of norm δ the lead is at least "
        "M(1 - 2δ), so for δ well below ½ M may be arbitrarily large",
        under_test=(one_head, copying_query, weight_bounds), corrected=noise_shortens_the_lead,
        domain={"n": Whole(2, 8), "M": Real(0, 60), "delta": Real(0, 0.5)},
        literal=lambda lab, n, M: copies_if_ahead_of_others(lab, (M, *[0.0] * (n - 1))),
        witness={"n": 100, "M": 3.0},
    ),
    Claim(
        "S001-d.ii.2", "167", TRUE,
        says="two heads do not give all weight to one value",
        truth="a value has at most ½ + 1/(2n) if y ≥ 0, and the question allows to ignore other "
        "draws; for y < 0 v_b can have up to ½ + ½/(n - 1), which is 1 for n = 2",
        under_test=PAIR, corrected=weights_of_two, domain=GIVEN,
    ),
    Claim(
        "S002-d.1", "12", CONDITIONAL,
        says="q_1 = a_1 μ_a + a_2 Σ μ_i + x copies v_a if a_1 ≫ a_2",
        truth="α_a = 1/(1 + (n - 1)e^-(a_1 - a_2)): the difference a_1 - a_2 must be large",
        under_test=(one_head, family_query), corrected=family_copies,
        domain={"n": Whole(2, 8), "a_1": Real(-30, 30), "a_2": Real(-30, 30), "x": Real(0, 100)},
        literal=lambda lab, n, a_1, a_2: copies_if_ahead_of_others(lab, (a_1, *[a_2] * (n - 1))),
        witness={"n": 10, "a_1": 1.0, "a_2": 0.001},
    ),
]
