"""Chapter 7: question 1 (b) ii, continued: all queries for two keys, for more, for any mixture."""

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


def others_hear_nothing(lab: Lab, n: int, s_a: float, s_b: float) -> Finding:
    """s_a k_a + s_b k_b has scores s_a, s_b and 0; and this takes n dimensions at least."""
    keys = lab.orthonormal(n)
    query = query_of(keys, [s_a, s_b, *[0.0] * (n - 2)])
    scores, limit = ops.matmul(keys, query).numpy(), 1e-13 * math.hypot(s_a, s_b)
    try:
        orthonormal(lab.rng, n, n - 1)
        fits = True
    except ValueError:
        fits = False
    return every(
        at_most("other scores", abs(scores[2:]).max(initial=0.0), limit, 1e-300),
        equal("scores of a and b", scores[:2], [s_a, s_b]),
        fact(not fits, f"{n} keys need {n} dimensions", f"{n} orthonormal keys in {n - 1}"),
    )


def only_own_product(lab: Lab, lengths: tuple[float, ...]) -> Finding:
    """Perpendicular keys of any length: K Kᵀ has their squared lengths and else zeros."""
    means = lab.orthonormal(len(lengths))
    keys = lengthened(means, lengths)
    return every(
        equal("lengths", np.diag(ops.matmul(keys, means.T).numpy()), lengths),
        equal("K Kᵀ", ops.matmul(keys, keys.T), np.diag(np.square(lengths))),
    )


def scores_of_the_pair(lab: Lab, n: int, beta: float) -> Finding:
    """β, β, and 0 for all others."""
    keys = lab.orthonormal(n)
    scores = ops.matmul(keys, averaging_query(keys, [0, 1], beta))
    return equal("scores", scores, two_ahead(n, beta))


def perpendicular_to_difference(lab: Lab, n: int, M: float) -> Finding:
    """ln(α_a/α_b) = q·(k_a - k_b) for any keys: 0 exactly where the weights are equal."""
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
    """Only c_1 - c_2 counts; x and t Σ k_i do not; and the family is not all that there is."""
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
    """q = β Σ k_i over any k of the keys: 1/(k + (n - k)e^-β) each, and for the rest e^-β of it."""
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
        says="a combination of k_a and k_b is orthogonal to every other key",
        truth="for orthogonal keys, of which n need n dimensions; its scores are its coefficients",
        under_test=(query_of, orthonormal),
        corrected=others_hear_nothing,
        domain={"n": Whole(2, 12), "s_a": Real(-1e3, 1e3), "s_b": Real(-1e3, 1e3)},
    ),
    Claim(
        "S002-b.2", "8", TRUE,
        says="the dot product of perpendicular keys is 0",
        truth="K Kᵀ is diagonal, with the squared lengths",
        under_test=(orthonormal, lengthened),
        corrected=only_own_product, domain={"lengths": Reals(-10, 10, 1, 10)},
    ),
    Claim(
        "S002-b.3", "8", CONDITIONAL,
        says="q = c_1(k_a + k_b) + c_2 Σ k_i + x with c_1 ≫ c_2 and x ⟂ all keys",
        truth="α_a = α_b = 1/(2 + (n - 2)e^-(c_1 - c_2)): ≫ is a difference, and c_2 and x change "
        "nothing; nor are these all queries, Σ ln p_i k_i has any weights p you like",
        under_test=(family_query, distribution_query, averaging_weight, ops.attention),
        corrected=difference_and_more,
        domain={"n": Whole(2, 9), "c1": Real(-20, 20), "c2": Real(-20, 20), "t": Real(-20, 20)},
        literal=lambda lab, n, c1, c2: half_each(lab, (c1, c1, *[c2] * (n - 2))),
        witness={"n": 10, "c1": 0.01, "c2": 0.0001},
    ),
    Claim(
        "S004-b.ii.1", "87", TRUE,
        says="the weights are equal if q is perpendicular to k_a - k_b",
        truth="and only then, whatever the keys: ln(α_a/α_b) = q·(k_a - k_b)",
        under_test=(ops.attention,),
        corrected=perpendicular_to_difference, domain={"n": Whole(2, 8), "M": Real(0, 20)},
    ),
    Claim(
        "S004-b.ii.2", "107", TRUE,
        says="the scores of β(k_a + k_b) are β, β, and 0 for all others",
        truth="exactly, for orthonormal keys",
        under_test=(averaging_query,),
        corrected=scores_of_the_pair, domain={"n": Whole(2, 12), "beta": Real(-100, 100)},
    ),
    Claim(
        "S004-c.1", "113", TRUE, of_question=True,
        says="the same works for any subset of the keys",
        truth="q = β Σ k_i over k of them: 1/(k + (n - k)e^-β) each",
        under_test=(averaging_query, averaging_weight, ops.attention),
        corrected=any_subset,
        domain={"n": Whole(1, 12), "part": Real(0, 1), "beta": Real(-10, 60)},
    ),
]
