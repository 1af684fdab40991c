"""Chapter 7: question 1 (b) ii, continued: all queries that average two values or mix more."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, TRUE, Claim
from tinyattn.theory.claims.averaging import half_each, two_ahead
from tinyattn.theory.finding import Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals, Whole, by_hand
from tinyattn.theory.noisy_keys import lengthened
from tinyattn.theory.queries import (
    averaging_query,
    averaging_weight,
    distribution_query,
    family_query,
    orthonormal,
    query_of,
)

# What is true --------------------------------------------------------------------------------


def other_scores_are_zero(lab: Lab, n: int, s_a: float, s_b: float) -> Finding:
    """The scores of s_a k_a + s_b k_b are s_a, s_b and 0; n orthonormal keys need D ≥ n."""
    keys = lab.orthonormal(n)
    query = query_of(keys, [s_a, s_b, *[0.0] * (n - 2)])
    scores, limit = ops.matmul(keys, query).numpy(), 1e-13 * math.hypot(s_a, s_b)
    try:
        orthonormal(lab.rng, n, n - 1)
        fits = True
    except ValueError:
        fits = False
    return every(
        at_most("largest other score", abs(scores[2:]).max(initial=0.0), limit, 1e-300),
        equal("scores of a and b", scores[:2], [s_a, s_b]),
        fact(not fits, f"{n} keys need {n} dimensions", f"{n} orthonormal keys in {n - 1}"),
    )


def only_own_product(lab: Lab, lengths: tuple[float, ...]) -> Finding:
    """For orthogonal keys of any norm, K Kᵀ is diagonal, with their squared norms."""
    means = lab.orthonormal(len(lengths))
    keys = lengthened(means, lengths)
    return every(
        equal("norms, signed:", np.diag(ops.matmul(keys, means.T).numpy()), lengths),
        equal("K Kᵀ", ops.matmul(keys, keys.T), np.diag(np.square(lengths))),
    )


def scores_of_the_pair(lab: Lab, n: int, beta: float) -> Finding:
    """The scores are β, β, and 0 for all other keys."""
    keys = lab.orthonormal(n)
    scores = ops.matmul(keys, averaging_query(keys, [0, 1], beta))
    return equal("scores", scores, two_ahead(n, beta))


def perpendicular_to_difference(lab: Lab, n: int, M: float) -> Finding:
    """ln(α_a/α_b) = q·(k_a - k_b) for any keys, so it is 0 if and only if the weights are equal."""
    keys, query = lab.normal(n, 4), M * lab.normal(4)
    apart = keys[0] - keys[1]
    along = ops.matmul(query, apart) / ops.matmul(apart, apart)
    askew, square = (
        lab.attend(q, keys, keys)[1].numpy() for q in (query, query - along.item() * apart)
    )
    return every(
        equal("weights", askew, by_hand(ops.matmul(keys, query).numpy())),
        equal("ln(α_a/α_b)", math.log(askew[0] / askew[1]), ops.matmul(query, apart)),
        equal("α_a of q ⟂ k_a - k_b", square[0], square[1]),
    )


def difference_and_more(lab: Lab, n: int, c1: float, c2: float, t: float) -> Finding:
    """Only c_1 - c_2 matters; x and t Σ k_i do not; other queries give any weights."""
    keys, values = lab.orthonormal(n, extra=2), lab.normal(n, 2)
    x = lab.normal(n + 2)
    x = t * (x - ops.matmul(ops.matmul(keys, x), keys))
    query = family_query(keys, [0, 1], c1, c2, x)
    lifted = query + query_of(keys, [t] * n)
    wanted = by_hand(lab.rng.uniform(-20, 20, n))
    reached = lab.attend(distribution_query(keys, wanted.tolist()), keys, values)[1]
    return every(
        *(
            equal("α_a, α_b", lab.attend(q, keys, values)[1].numpy()[:2],
                  [averaging_weight(n, c1 - c2)] * 2)
            for q in (query, lifted)
        ),
        equal("weights of Σ ln p_i k_i", reached, wanted),
    )  # fmt: skip


def any_subset(lab: Lab, n: int, part: float, beta: float) -> Finding:
    """q = β Σ k_i over k keys: their weights are w = 1/(k + (n - k)e^-β), all others e^-β w."""
    keys, chosen = lab.orthonormal(n), lab.rng.permutation(n)[: max(1, round(part * n))].tolist()
    weights = lab.attend(averaging_query(keys, chosen, beta), keys, keys)[1].numpy()
    each = averaging_weight(n, beta, len(chosen))
    wanted = np.full(n, each * math.exp(-beta))
    wanted[chosen] = each
    return every(equal("weights", weights, wanted), equal("their sum", wanted.sum(), 1.0))


# fmt: off
CLAIMS = [
    Claim(
        "S000-b.4", "59", TRUE,
        says="a linear combination of k_a and k_b is orthogonal to every other key",
        truth="true for orthonormal keys (n need n dimensions); the coefficients are the scores",
        under_test=(query_of, orthonormal),
        corrected=other_scores_are_zero,
        domain={"n": Whole(2, 12), "s_a": Real(-1e3, 1e3), "s_b": Real(-1e3, 1e3)},
    ),
    Claim(
        "S002-b.2", "8", TRUE,
        says="the dot product of perpendicular keys is 0",
        truth="this is right: K Kᵀ is diagonal, with the squared norms",
        under_test=(orthonormal, lengthened),
        corrected=only_own_product, domain={"lengths": Reals(-10, 10, 1, 10)},
    ),
    Claim(
        "S002-b.3", "8", CONDITIONAL,
        says="q = c_1(k_a + k_b) + c_2 Σ k_i + x averages v_a and v_b, if c_1 ≫ c_2 and x ⟂ keys",
        truth="α_a = α_b = 1/(2 + (n - 2)e^-(c_1 - c_2)): the difference c_1 - c_2 must be large; "
        "x has no effect; other queries exist: Σ ln p_i k_i has any given weights p",
        under_test=(family_query, distribution_query, averaging_weight, ops.attention),
        corrected=difference_and_more,
        domain={"n": Whole(2, 9), "c1": Real(-20, 20), "c2": Real(-20, 20), "t": Real(-20, 20)},
        literal=lambda lab, n, c1, c2: half_each(lab, (c1, c1, *[c2] * (n - 2))),
        witness={"n": 10, "c1": 0.01, "c2": 0.0001},
    ),
    Claim(
        "S004-b.ii.1", "87", TRUE,
        says="the weights are equal if q is perpendicular to k_a - k_b",
        truth="true, and only then, for any keys: ln(α_a/α_b) = q·(k_a - k_b)",
        under_test=(ops.attention,),
        corrected=perpendicular_to_difference, domain={"n": Whole(2, 8), "M": Real(0, 20)},
    ),
    Claim(
        "S004-b.ii.2", "107", TRUE,
        says="the scores of β(k_a + k_b) are β, β, and 0 for all other keys",
        truth="this is exact for orthonormal keys",
        under_test=(averaging_query,),
        corrected=scores_of_the_pair, domain={"n": Whole(2, 12), "beta": Real(-100, 100)},
    ),
    Claim(
        "S004-c.1", "113", TRUE, of_question=True,
        says="a query can average the values of any subset of the keys",
        truth="q = β Σ k_i over k of the keys gives each of them 1/(k + (n - k)e^-β)",
        under_test=(averaging_query, averaging_weight, ops.attention),
        corrected=any_subset,
        domain={"n": Whole(1, 12), "part": Real(0, 1), "beta": Real(-10, 60)},
    ),
]
