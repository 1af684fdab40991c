"""Chapter 7: question 1 (c) i, keys with small noise in every direction.

Noise in the keys changes scores in proportion to the norm of the query. So the norm must be large
enough for a lead over n - 2 keys, and small enough for a small effect of the noise.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, Claim
from tinyattn.theory.finding import Finding, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole, by_hand, length
from tinyattn.theory.noisy_keys import noisy_keys, one_head, window_bound
from tinyattn.theory.queries import (
    averaging_query,
    averaging_weight,
    family_query,
    query_of,
)
from tinyattn.theory.weights import largest_move

LITTLE = 0.05
"""The largest change of weights that is called small."""


def weights_under(lab: Lab, keys: Tensor, query: Tensor) -> np.ndarray:
    """The weights of these keys under a query."""
    return one_head(keys, lab.normal(keys.shape[-2], 1), query)[1].numpy()


def noises(lab: Lab, keys: Tensor, query: Tensor, delta: float) -> list[Tensor]:
    """Keys with noise of norm δ: the worst case, along the query, and in random directions."""
    ahead = np.array([1.0, *[-1.0] * (keys.shape[0] - 1)])
    along = query * (delta / max(length(query), 1e-300))
    g = lab.rng.standard_normal(keys.shape)
    anywhere = delta * g / np.linalg.norm(g, axis=1, keepdims=True)
    return [keys + lab.tensor(ahead[:, None]) * along, keys + lab.tensor(anywhere)]


def moves_at_most(lab: Lab, keys: Tensor, query: Tensor, delta: float) -> Finding:
    """½ Σ|Δα_i| ≤ tanh(|q|δ/2), since no score changes by more than |q|δ."""
    before, farthest = weights_under(lab, keys, query), length(query) * delta
    noisy = noises(lab, keys, query, delta)
    moved = [np.abs(weights_under(lab, k, query) - before).sum() / 2 for k in noisy]
    bound = largest_move([farthest, -farthest])
    return every(
        equal("weights", before, by_hand(keys.numpy() @ query.numpy())),
        at_most("changes of weights", moved, [bound, bound]),
        equal("bound", bound, math.tanh(farthest / 2)),
    )


# What is true --------------------------------------------------------------------------------


def inside_the_window(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """|c - ½(v_a + v_b)| ≤ diam(V)·((n - 2)/(n - 2 + 2e^M) + tanh(Mδ/√2)), if |k_i - μ_i| ≤ δ."""
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    query, v = averaging_query(means, [0, 1], M), values.numpy()
    diameter = max(np.linalg.norm(x - y) for x in v for y in v)
    outputs = [
        one_head(keys, values, query)[0].numpy() for keys in noises(lab, means, query, delta)
    ]
    errors = [np.linalg.norm(c - (v[0] + v[1]) / 2) for c in outputs]
    pushed = M * delta * math.sqrt(2)
    rest = (n - 2) * math.exp(-M)
    bound = rest / (rest + 2) + math.tanh(M * delta / math.sqrt(2))
    worst = by_hand([M + pushed, M - pushed, *[-pushed] * (n - 2)])
    return every(
        equal("c in the worst case", outputs[0], worst @ v),
        at_most("|c - ½(v_a + v_b)|", errors, [diameter * bound] * 2),
        equal("bound", window_bound(n, M, delta), bound),
    )


def norm_of_the_query_matters(
    lab: Lab, n: int, c1: float, c2: float, x: float, delta: float
) -> Finding:
    """Without noise x has no effect; with it |q|² = 2c_1² + (n - 2)c_2² + |x|² is in the bound."""
    space = lab.orthonormal(n + 1)
    means = space[:n]
    query = family_query(means, [0, 1], c1, c2, space[n] * x)
    return every(
        equal(
            "α_a without noise", weights_under(lab, means, query)[0], averaging_weight(n, c1 - c2)
        ),
        equal("|q|²", length(query) ** 2, 2 * c1**2 + (n - 2) * c2**2 + x**2, 1e-9),
        moves_at_most(lab, means, query, delta),
    )


def bound_for_any_query(lab: Lab, n: int, length_q: float, delta: float) -> Finding:
    """For any query; with two keys and the scores -|q|δ and 0 the bound is attained."""
    keys = lab.orthonormal(n)
    direction = lab.normal(keys.shape[1])
    query = direction * (length_q / length(direction))
    space = lab.orthonormal(3)
    pair, across = space[:2], space[2] * (length_q * math.sqrt(1 - delta * delta))
    worst = query_of(pair, [-length_q * delta, 0.0]) + across
    moved = weights_under(lab, noises(lab, pair, worst, delta)[0], worst) - weights_under(
        lab, pair, worst
    )
    return every(
        moves_at_most(lab, keys, query, delta),
        equal("largest change, n = 2:", np.abs(moved).sum() / 2, math.tanh(length_q * delta / 2)),
    )


# What the sheets say -------------------------------------------------------------------------


def even_on_average(lab: Lab, n: int, M: float, x: float, alpha: float) -> Finding:
    """q = M(μ_a + μ_b) + x averages v_a and v_b, with noise of covariance α I in all keys."""
    space = lab.orthonormal(n + 1)
    query = family_query(space[:n], [0, 1], M, 0.0, space[n] * x)
    weights = weights_under(lab, noisy_keys(lab.rng, space[:n], alpha, [0.0] * n, 4000), query)
    return at_most("mean |α_a - ½|", np.abs(weights[:, 0] - 0.5).mean(), LITTLE)


def moves_little(lab: Lab, M: float, delta: float) -> Finding:
    """The weights of two averaged keys change little under noise of norm δ."""
    means = lab.orthonormal(2)
    query = averaging_query(means, [0, 1], M)
    worst = weights_under(lab, noises(lab, means, query, delta)[0], query)
    return at_most("change of α_a", abs(worst[0] - 0.5), LITTLE)


# fmt: off
CLAIMS = [
    Claim(
        "S000-c.i", "71-75", CONDITIONAL,
        says="with vanishing noise q = M(μ_a + μ_b) averages v_a and v_b, for any large M",
        truth="|c - ½(v_a + v_b)| ≤ diam(V)·((n - 2)/(n - 2 + 2e^M) + tanh(Mδ/√2)) for noise of "
        "norm δ: M must exceed ln n by a few (any M for n = 2), and M ≪ 1/(2√α)",
        under_test=(one_head, averaging_query, window_bound),
        corrected=inside_the_window,
        domain={"n": Whole(2, 8), "M": Real(0, 30), "delta": Real(0, 1)},
        literal=lambda lab, n, M, alpha: even_on_average(lab, n, M, 0.0, alpha),
        witness={"n": 5, "M": 1000.0, "alpha": 1e-4},
    ),
    Claim(
        "S001-c.i", "106-107", CONDITIONAL,
        says="for α → 0 k_i ≈ μ_i, so the same query can be used",
        truth="as S000-c.i: α must be small enough for the chosen M",
        under_test=(one_head, averaging_query, window_bound),
        corrected=inside_the_window,
        domain={"n": Whole(2, 8), "M": Real(0, 30), "delta": Real(0, 1)},
        literal=lambda lab, n, M, alpha: even_on_average(lab, n, M, 0.0, alpha),
        witness={"n": 2, "M": 10_000.0, "alpha": 1e-6},
    ),
    Claim(
        "S002-c.1", "10", CONDITIONAL,
        says="with vanishing noise q = c_1(μ_a + μ_b) + c_2 Σ μ_i + x averages, for any x ⟂ μ_i",
        truth="weights change by up to tanh(|q|δ/2); x and c_2 increase |q|, so they must be small",
        under_test=(one_head, family_query, averaging_weight, largest_move),
        corrected=norm_of_the_query_matters,
        domain={"n": Whole(2, 8), "c1": Real(-20, 20), "c2": Real(-20, 20), "x": Real(0, 100),
                "delta": Real(0, 1)},
        literal=lambda lab, n, c1, x, alpha: even_on_average(lab, n, c1, x, alpha),
        witness={"n": 5, "c1": 10.0, "x": 10_000.0, "alpha": 1e-4},
    ),
    Claim(
        "S004-c.2", "116", CONDITIONAL, of_question=True,
        says="a single head is robust to small noise in the keys",
        truth="noise of norm δ changes weights by at most tanh(|q|δ/2), which can be attained; so "
        "|q|δ must be small",
        under_test=(one_head, query_of, largest_move),
        corrected=bound_for_any_query,
        domain={"n": Whole(2, 8), "length_q": Real(0.01, 50), "delta": Real(0, 1)},
        literal=moves_little, witness={"M": 100.0, "delta": 0.01},
    ),
]
