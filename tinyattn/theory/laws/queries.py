"""Chapter 7: laws of the output, and of queries that copy or average values."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import MultiHead
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Reals, Whole, by_hand
from tinyattn.theory.law import law
from tinyattn.theory.laws.changes import jacobian_by_backward
from tinyattn.theory.laws.weights import leading
from tinyattn.theory.noisy_keys import lengthened
from tinyattn.theory.queries import (
    averaging_error,
    averaging_query,
    averaging_weight,
    copying_query,
    distribution_query,
    family_query,
    query_of,
)
from tinyattn.theory.weights import jacobian

# The output ----------------------------------------------------------------------------------


@law("06_attention", ops.attention, query_of, scores=Reals(-50, 50, 1, 8))
def inside_the_hull(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """c is in the convex hull of the values: min u·v_i ≤ u·c ≤ max u·v_i for every vector u."""
    n = len(scores)
    keys, values, direction = lab.orthonormal(n), lab.normal(n, 3), lab.normal(3)
    c, weights = lab.attend(query_of(keys, scores), keys, values)
    along = ops.matmul(values, direction)
    height = ops.matmul(c, direction).item()
    return every(
        equal("weights", weights, by_hand(scores)),
        at_most("u·c", height, along.max().item()),
        at_least("u·c", height, along.min().item()),
    )


@law("07_copying", ops.attention, query_of, n=Whole(2, 8), lead=Real(0, 20))
def error_is_the_weight_missing(lab: Lab, n: int, lead: float) -> Finding:
    """|c - v_j| ≤ (1 - α_j) max |v_i - v_j|: an α_j near 1 is always sufficient for c near v_j.

    It is necessary only if v_j is outside the convex hull of the other values. c - v_j is 1 - α_j
    times (weighted mean of the others - v_j), so |c - v_j| is then at least 1 - α_j times the
    distance of v_j from the hull, √(1 + 1/(n - 1)) for orthonormal values.
    """
    scores, values = leading(lab, n, lead), lab.normal(n, n + 2)
    keys, corners = lab.orthonormal(n), lab.orthonormal(n)
    c, weights = (t.numpy() for t in lab.attend(query_of(keys, scores), keys, values))
    v, missing = values.numpy(), 1 - weights[0]
    error = np.linalg.norm(c - v[0])
    others = weights[1:] @ v[1:] / weights[1:].sum()
    stretch = np.linalg.svd(v[1:] - v[0], compute_uv=False)[-1]
    off = lab.attend(query_of(keys, scores), keys, corners)[0] - corners[0]
    return every(
        equal("weights", weights, by_hand(scores)),
        equal("c - v_j", c - v[0], missing * (others - v[0])),
        at_most("|c - v_j|", error, missing * np.linalg.norm(v[1:] - v[0], axis=1).max()),
        at_least("|c - v_j|", error, stretch * np.linalg.norm(weights[1:])),
        at_most("1 - α_j", missing, np.linalg.norm(off.numpy()) / math.sqrt(1 + 1 / (n - 1))),
    )


@law("08_averaging", ops.attention, query_of, scores=Reals(-20, 20, 2, 8))
def error_measures_weights(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """|c - ½(v_a + v_b)| ≤ ½ Σ |Δα_i| times the diameter of the values, Δα = α - (½, ½, 0, ..).

    So a small Δα is always sufficient. It is necessary for affinely independent values: the error
    is at least σ |Δα| with a σ > 0, a singular value. It is not if another convex combination of
    the values is ½(v_a + v_b), too.
    """
    n = len(scores)
    keys, values = lab.orthonormal(n), lab.normal(n, n + 2)
    c, weights = (t.numpy() for t in lab.attend(query_of(keys, scores), keys, values))
    v = values.numpy()
    misplaced = weights - [0.5, 0.5, *[0.0] * (n - 2)]
    error = np.linalg.norm(c - (v[0] + v[1]) / 2)
    widest = max(np.linalg.norm(x - y) for x in v for y in v)
    inward = np.linalg.svd(np.ones((1, n)))[2][1:]  # changes that keep the sum of the weights
    stretch = np.linalg.svd(inward @ v, compute_uv=False)[-1]
    return every(
        equal("weights", weights, by_hand(scores)),
        at_most("|c - ½(v_a + v_b)|", error, abs(misplaced).sum() / 2 * widest),
        at_least("|c - ½(v_a + v_b)|", error, stretch * np.linalg.norm(misplaced)),
    )


@law("06_attention", ops.attention, n=Whole(1, 8), copies=Whole(1, 8))
def equal_keys_are_one(lab: Lab, n: int, copies: int) -> Finding:
    """m equal keys act as one with a score larger by ln m and the mean of their values."""
    keys, q = lab.normal(n, 3), lab.normal(3)
    repeated = ops.concatenate([*[keys[:1]] * (copies - 1), keys])
    values = lab.normal(n + copies - 1, 2)
    c, weights = lab.attend(q, repeated, values)
    bonus = lab.tensor([math.log(copies), *[0.0] * (n - 1)])
    one = lab.weights(ops.matmul(keys, q) + bonus)
    merged = ops.concatenate([values[:copies].mean(axis=0, keepdims=True), values[copies:]])
    return every(
        equal("sum of their weights", weights[:copies].sum(), one[0].item()),
        equal("other weights", weights[copies:], one[1:]),
        equal("output", c, ops.matmul(one, merged)),
    )


@law("06_attention", ops.attention, jacobian, n=Whole(1, 8), D=Whole(1, 5), M=Real(0, 20))
def output_moves_by_a_covariance(lab: Lab, n: int, D: int, M: float) -> Finding:
    """Backward through attention gives ∂c/∂q = Vᵀ J K, J = diag α - ααᵀ."""
    keys, values = lab.normal(n, D), lab.normal(n, 2)
    q = lab.leaf(M * lab.rng.standard_normal(D))
    c, weights = lab.attend(q, keys, values)
    wanted = values.numpy().T @ jacobian(weights).numpy() @ keys.numpy()
    return equal("∂c/∂q", jacobian_by_backward(c, q), wanted)


@law("06_attention", MultiHead, n=Whole(3, 10))
def last_row_knows_no_order(lab: Lab, n: int) -> Finding:
    """Earlier tokens may be permuted: the last row of a causal layer without positions is the same.

    But other rows then attend to other tokens, so the last row of a second layer depends on order.
    """
    first, second = (lab.block(MultiHead, 4, 2, max_length=n) for _ in range(2))
    x = lab.normal(1, n, 4)
    other = ops.concatenate([x[:, : n - 1].flip(1), x[:, n - 1 :]], axis=1)
    y, z = (first(t, causal=True) for t in (x, other))
    after, change = (second(t, causal=True) for t in (y, z)), np.abs((z - y).numpy()[0])
    deeper = np.subtract(*(t.numpy()[0, -1] for t in after))
    permuted = first(x[:, [*lab.rng.permutation(n - 1), n - 1]], causal=True)
    return every(
        equal("last row", permuted[:, -1], y[:, -1]),
        equal("last row, reversed", z[:, -1], y[:, -1]),
        at_least("change of the first row", change[0].max(), 1e-9, 0),
        at_least("change of the second layer's last row", np.abs(deeper).max(), 1e-9, 0),
    )


# Queries -------------------------------------------------------------------------------------


@law("07_copying", copying_query, averaging_weight, n=Whole(1, 12), lamda=Real(0, 30))
def a_key_as_query_copies(lab: Lab, n: int, lamda: float) -> Finding:
    """q = λ k_j with orthonormal keys: α_j = 1/(1 + (n - 1)e^-λ), so λ must be large."""
    keys, j = lab.orthonormal(n), int(lab.rng.integers(n))
    _, weights = lab.attend(copying_query(keys, j, lamda), keys, lab.normal(n, 2))
    exact = 1 / (1 + (n - 1) * math.exp(-lamda))
    return every(
        equal("α_j", weights.numpy()[j], exact),
        equal("the formula", averaging_weight(n, lamda, 1), exact),
    )


@law("08_averaging", averaging_query, averaging_weight, averaging_error, lengthened, ops.attention,
     n=Whole(2, 9), M=Real(-10, 100), longest=Real(1, 20))  # fmt: skip
def two_keys_average(lab: Lab, n: int, M: float, longest: float) -> Finding:
    """q = M(k_a/|k_a|² + k_b/|k_b|²) has α_a = α_b = e^M/(n - 2 + 2e^M), for orthogonal keys.

    M is any real number; for keys of norm 1 this is q = M(k_a + k_b). So ½ - α_a is
    (n - 2)/(2(n - 2 + 2e^M)), and c - ½(v_a + v_b) is twice that times (mean of the others -
    ½(v_a + v_b)): M - ln n ≫ 1 is needed.
    """
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    norms = lab.rng.uniform(1 / longest, longest, n)
    keys, query = lengthened(means, norms), lengthened(means, 1 / norms)
    a, b = (int(i) for i in lab.rng.permutation(n)[:2])
    c, weights = (t.numpy() for t in lab.attend(averaging_query(query, [a, b], M), keys, values))
    v, rest = values.numpy(), n - 2 + 2 * math.exp(M)  # the denominator of the sheets
    mean, others = (v[a] + v[b]) / 2, np.delete(v, [a, b], axis=0)
    far = others.mean(axis=0) - mean if n > 2 else 0 * mean
    return every(
        equal("α_a, α_b", weights[[a, b]], [math.exp(M) / rest] * 2),
        equal("α_a", weights[a], averaging_weight(n, M)),
        equal("½ - α_a:", 0.5 - weights[a], (n - 2) / (2 * rest)),
        equal("c - ½(v_a + v_b)", c - mean, averaging_error(n, M) * far),
    )


@law("08_averaging", averaging_query, averaging_weight, ops.attention,
     n=Whole(1, 12), part=Real(0, 1), beta=Real(-10, 60))  # fmt: skip
def any_subset_averages(lab: Lab, n: int, part: float, beta: float) -> Finding:
    """q = β Σ k_i over k of n orthonormal keys gives each of them 1/(k + (n - k)e^-β).

    Each other key has e^-β times this weight.
    """
    keys, chosen = lab.orthonormal(n), lab.rng.permutation(n)[: max(1, round(part * n))].tolist()
    weights = lab.attend(averaging_query(keys, chosen, beta), keys, keys)[1].numpy()
    each = averaging_weight(n, beta, len(chosen))
    wanted = np.full(n, each * math.exp(-beta))
    wanted[chosen] = each
    return every(equal("weights", weights, wanted), equal("their sum", wanted.sum(), 1.0))


@law("08_averaging", ops.attention, n=Whole(2, 8), M=Real(0, 20))
def equal_weights_need_a_right_angle(lab: Lab, n: int, M: float) -> Finding:
    """For any keys, α_a = α_b if and only if q ⟂ k_a - k_b, since ln(α_a/α_b) = q·(k_a - k_b)."""
    lab.conventions.needs("float64")
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


@law("08_averaging", family_query, distribution_query, averaging_weight, ops.attention,
     n=Whole(2, 9), c1=Real(-20, 20), c2=Real(-20, 20), t=Real(-20, 20))  # fmt: skip
def only_a_difference_averages(lab: Lab, n: int, c1: float, c2: float, t: float) -> Finding:
    """q = c_1(k_a + k_b) + c_2 Σ k_i + x, x ⟂ keys: α_a = α_b = 1/(2 + (n - 2)e^-(c_1 - c_2)).

    This is for orthonormal keys; so c_1 - c_2 must be large, not c_1/c_2. Neither x nor t Σ k_i,
    over all keys, has an effect. Other queries exist: Σ ln p_i k_i has any given weights p.
    """
    keys, values = lab.orthonormal(n, extra=2), lab.normal(n, 2)
    x = lab.normal(n + 2)
    x = t * (x - ops.matmul(ops.matmul(keys, x), keys))
    query = family_query(keys, [0, 1], c1, c2, x)
    lifted = query + query_of(keys, [t] * n)
    wanted = by_hand(lab.rng.uniform(-20, 20, n))
    reached = lab.attend(distribution_query(keys, wanted.tolist()), keys, values)[1]
    pairs = [lab.attend(q, keys, values)[1].numpy()[:2] for q in (query, lifted)]
    return every(
        *(equal("α_a, α_b", pair, [averaging_weight(n, c1 - c2)] * 2) for pair in pairs),
        equal("weights of Σ ln p_i k_i", reached, wanted),
    )
