"""Chapter 7: question 1 (b) ii, continued: all queries that average two values or mix more."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.finding import Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.queries import (
    any_subset_averages,
    equal_weights_need_a_right_angle,
    only_a_difference_averages,
)
from tinyattn.theory.noisy_keys import lengthened
from tinyattn.theory.queries import averaging_query, orthonormal, query_of


@check(query_of, averaging_query, orthonormal,
       n=Whole(2, 12), s_a=Real(-1e3, 1e3), s_b=Real(-1e3, 1e3))  # fmt: skip
def other_scores_are_zero(lab: Lab, n: int, s_a: float, s_b: float) -> Finding:
    """For orthonormal keys, s_a k_a + s_b k_b has the scores s_a and s_b, and exactly 0 for others.

    n such keys need n dimensions.
    """
    keys = lab.orthonormal(n)
    query = query_of(keys, [s_a, s_b, *[0.0] * (n - 2)])
    scores, limit = ops.matmul(keys, query).numpy(), 1e-13 * math.hypot(s_a, s_b)
    alike = ops.matmul(keys, averaging_query(keys, [0, 1], s_a))
    try:
        orthonormal(lab.rng, n, n - 1)
        fits = True
    except ValueError:
        fits = False
    return every(
        at_most("largest other score", abs(scores[2:]).max(initial=0.0), limit, 1e-300),
        equal("scores of a and b", scores[:2], [s_a, s_b]),
        equal("scores of s_a (k_a + k_b)", alike, [s_a, s_a, *[0.0] * (n - 2)]),
        fact(not fits, f"{n} keys need {n} dimensions", f"{n} orthonormal keys in {n - 1}"),
    )


@check(orthonormal, lengthened, lengths=Reals(-10, 10, 1, 10))
def only_own_product(lab: Lab, lengths: tuple[float, ...]) -> Finding:
    """For orthogonal keys of any norm the dot products K Kᵀ are 0, except the squared norms."""
    means = lab.orthonormal(len(lengths))
    keys = lengthened(means, lengths)
    return every(
        equal("norms, signed:", np.diag(ops.matmul(keys, means.T).numpy()), lengths),
        equal("K Kᵀ", ops.matmul(keys, keys.T), np.diag(np.square(lengths))),
    )


# fmt: off
CLAIMS = [
    Claim(
        "S000-b.4", "59", TRUE,
        says="a linear combination of k_a and k_b is orthogonal to every other key",
        check=other_scores_are_zero,
    ),
    Claim(
        "S002-b.2", "8", TRUE,
        says="the dot product of perpendicular keys is 0",
        check=only_own_product,
    ),
    Claim(
        "S002-b.3", "8", CONDITIONAL,
        says="q = c_1(k_a + k_b) + c_2 Σ k_i + x averages v_a and v_b, if c_1 ≫ c_2 and x ⟂ keys",
        check=only_a_difference_averages,
        literal=only_a_difference_averages.gives("α_a, α_b", (0.5, 0.5)),
        witness={"n": 10, "c1": 0.01, "c2": 0.0001, "t": 0.0},
    ),
    Claim(
        "S004-b.ii.1", "87", TRUE,
        says="the weights are equal if q is perpendicular to k_a - k_b",
        check=equal_weights_need_a_right_angle,
    ),
    Claim(
        "S004-b.ii.2", "107", TRUE,
        says="the scores of β(k_a + k_b) are β, β, and 0 for all other keys",
        check=other_scores_are_zero,
    ),
    Claim(
        "S004-c.1", "113", TRUE, of_question=True,
        says="a query can average the values of any subset of the keys",
        check=any_subset_averages,
    ),
]
