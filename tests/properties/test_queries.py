"""Queries that copy, average and mix: their exact outputs, for any values."""

import math

import numpy as np
import plain
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import Setting, scores_of, seeds, settings_of

from tinyattn import Tensor, ops
from tinyattn.attention import attend
from tinyattn.theory import (
    averaging_error,
    averaging_query,
    averaging_weight,
    copying_query,
    distribution_query,
    family_query,
    imbalance,
    largest_move,
    lengthened,
    one_head,
    query_of,
    repelling_query,
    two_heads,
    window_bound,
)

EXACT = {"rtol": 0, "atol": 1e-11}
sizes = st.floats(0, 30)


def plain_attend(query: object, keys: object, values: object) -> tuple[np.ndarray, np.ndarray]:
    """Output and weights, as plain arrays."""
    c, weights = attend(query, keys, values)
    return c.numpy(), weights.numpy()


# Any keys ----------------------------------------------------------------------------------


@given(scores_of(2, 8), seeds)
def test_an_output_is_near_a_value_with_a_large_weight(s: np.ndarray, seed: int) -> None:
    """P11: |c - v_j| ≤ (1 - α_j) max |v_i - v_j|, for every j."""
    case = Setting(len(s), 0, seed)
    c, weights = plain_attend(query_of(case.keys, s), case.keys, case.v)
    assert_allclose(weights, plain.softmax(s), **EXACT)
    for j in range(case.n):
        farthest = np.linalg.norm(case.v - case.v[j], axis=1).max()
        assert np.linalg.norm(c - case.v[j]) <= (1 - weights[j]) * farthest + 1e-12


@given(settings_of(1, 8), st.floats(0.1, 10))
def test_only_products_of_queries_and_keys_matter(case: Setting, factor: float) -> None:
    """P14: rotating both, or moving a factor from one to the other, changes nothing."""
    D = case.k.shape[1]
    k, q = case.rng.standard_normal((case.n, D)), case.rng.standard_normal(D)
    c, weights = plain_attend(q, k, case.v)
    turn = plain.orthonormal(case.rng, D, D)
    changed = (
        plain_attend(turn @ q, k @ turn.T, case.v),
        plain_attend(q * factor, k / factor, case.v),
    )
    for other_c, other_weights in changed:
        assert_allclose(other_c, c, **EXACT)
        assert_allclose(other_weights, weights, **EXACT)
    c, weights = (t.numpy() for t in attend(q, k, case.v, scale=factor))
    assert_allclose(weights, plain.softmax(factor * (k @ q)), **EXACT)
    assert_allclose(c, weights @ case.v, **EXACT)


@given(settings_of(1, 8), scores_of(3, 3))
def test_what_is_added_to_all_values_is_added_to_the_output(case: Setting, u: np.ndarray) -> None:
    """P15: c(v + u) = c(v) + u, and outputs are linear in the values."""
    q = 3 * case.rng.standard_normal(case.k.shape[1])
    c = plain_attend(q, case.k, case.v)[0]
    assert_allclose(plain_attend(q, case.k, case.v + u)[0], c + u, **EXACT)
    other = case.rng.standard_normal(case.v.shape)
    both = plain_attend(q, case.k, 2 * case.v - other)[0]
    assert_allclose(both, 2 * c - plain_attend(q, case.k, other)[0], **EXACT)


@given(settings_of(2, 8), st.floats(-3, 3))
def test_two_weights_are_equal_if_the_query_is_orthogonal_to_the_difference_of_keys(
    case: Setting, t: float
) -> None:
    """P18: α_a = α_b if and only if q ⟂ k_a - k_b, whatever the keys."""
    k, q = case.rng.standard_normal(case.k.shape), case.rng.standard_normal(case.k.shape[1])
    apart = k[case.a] - k[case.b]
    q -= apart * (q @ apart) / (apart @ apart)
    a, b = plain_attend(q, k, case.v)[1][[case.a, case.b]]
    assert_allclose(a, b, **EXACT)
    a, b = plain_attend(q + t * apart / (apart @ apart), k, case.v)[1][[case.a, case.b]]
    assert_allclose(math.log(a / b), t, rtol=1e-9, atol=1e-9)
    assert_allclose(abs(a / (a + b) - 0.5), imbalance(t), **EXACT)


# Orthonormal keys --------------------------------------------------------------------------


@given(settings_of(2, 8), sizes)
def test_the_query_for_two_keys_gives_the_mean_of_their_values(case: Setting, M: float) -> None:
    """P16: α_a = α_b = 1/(2 + (n - 2) e^-M), and the error of c is the weight of the others."""
    n, rest = case.n, math.exp(-M)
    c, weights = plain_attend(
        averaging_query(case.keys, [case.a, case.b], M), case.keys, case.values
    )
    each = 1 / (2 + (n - 2) * rest)
    expected = np.full(n, rest * each)
    expected[[case.a, case.b]] = each
    assert_allclose(weights, expected, **EXACT)
    assert_allclose(averaging_weight(n, M), each, rtol=1e-14)
    missing = (n - 2) * rest / ((n - 2) * rest + 2)
    assert_allclose(c - case.middle, missing * (case.rest - case.middle), **EXACT)
    assert_allclose(averaging_error(n, M), missing, rtol=1e-14)


@given(settings_of(1, 8), sizes, st.data())
def test_a_query_for_several_keys_gives_them_equal_weights(
    case: Setting, M: float, data: st.DataObject
) -> None:
    """P43: 1/(k + (n - k) e^-M) for each of k; with one key, its value is copied."""
    k = data.draw(st.integers(1, case.n), "k")
    chosen = case.rng.permutation(case.n)[:k].tolist()
    each = 1 / (k + (case.n - k) * math.exp(-M))
    weights = plain_attend(averaging_query(case.keys, chosen, M), case.keys, case.values)[1]
    assert_allclose(weights[chosen], each, **EXACT)
    assert_allclose(weights.sum(), 1, **EXACT)
    assert_allclose(averaging_weight(case.n, M, k), each, rtol=1e-14)
    copy = plain_attend(copying_query(case.keys, chosen[0], M), case.keys, case.values)[1]
    assert_allclose(copy[chosen[0]], 1 / (1 + (case.n - 1) * math.exp(-M)), **EXACT)


@given(settings_of(2, 8), st.floats(-20, 20), st.floats(-20, 20), st.floats(-20, 20))
def test_of_all_queries_for_two_keys_only_a_difference_matters(
    case: Setting, inside: float, outside: float, t: float
) -> None:
    """P19: c_1 - c_2; a part orthogonal to all keys, or one that adds t to all scores, cancels."""
    x = case.rng.standard_normal(case.k.shape[1])
    x -= case.k.T @ (case.k @ x)
    chosen = [case.a, case.b]
    member = family_query(case.keys, chosen, inside, outside, x).numpy()
    for other in (member, member + t * case.k.sum(axis=0), member - x):
        weights = plain_attend(other, case.keys, case.values)[1]
        each = 1 / (2 + (case.n - 2) * math.exp(outside - inside))
        assert_allclose(weights[chosen], each, rtol=0, atol=1e-10)
        assert_allclose(weights[case.others], each * math.exp(outside - inside), atol=1e-10)
    assert_allclose(member @ case.k.T, [inside if i in chosen else outside for i in range(case.n)],
                    rtol=0, atol=1e-10)  # fmt: skip
    assert_allclose(member @ x, x @ x, rtol=0, atol=1e-9)


@given(settings_of(1, 8), st.floats(0, 20))
def test_every_mixture_has_a_query(case: Setting, spread: float) -> None:
    """P20: q = Σ ln p_i k_i gives the weights p, which may be any positive weights."""
    p = plain.softmax(spread * case.rng.standard_normal(case.n)) + 1e-30
    p /= p.sum()
    c, weights = plain_attend(distribution_query(case.keys, p.tolist()), case.keys, case.values)
    assert_allclose(weights, p, rtol=1e-10)
    assert_allclose(c, p @ case.v, **EXACT)


@given(settings_of(2, 8), st.floats(0, 12), st.floats(1e-4, 1))
def test_small_noise_in_the_keys_changes_the_output_little(
    case: Setting, M: float, size: float
) -> None:
    """P21: |c - mean| ≤ diam·((n - 2)/(n - 2 + 2 e^M) + tanh(M δ/√2)), if keys change by δ."""
    q = averaging_query(case.keys, [case.a, case.b], M)
    diameter = np.linalg.norm(case.v[:, None] - case.v, axis=-1).max()
    rest = (case.n - 2) * math.exp(-M)
    bound = rest / (rest + 2) + math.tanh(M * size / math.sqrt(2))
    assert_allclose(window_bound(case.n, M, size), bound, rtol=1e-12)
    toward = (case.k[case.a] + case.k[case.b]) / math.sqrt(2)
    noise = case.rng.standard_normal(case.k.shape)
    noise *= size / np.linalg.norm(noise, axis=1, keepdims=True)
    worst = np.zeros_like(noise)
    worst[case.a], worst[case.b] = size * toward, -size * toward  # opposite directions
    for moved in (noise, worst):
        c, weights = plain_attend(q, case.k + moved, case.v)
        assert np.linalg.norm(c - case.middle) <= bound * diameter + 1e-12
    assert_allclose(largest_move(worst @ q.numpy()), math.tanh(M * size / math.sqrt(2)), **EXACT)
    share = weights[case.a] / (weights[case.a] + weights[case.b])
    assert_allclose(share - 0.5, math.tanh(math.sqrt(2) * M * size) / 2, **EXACT)


@given(settings_of(2, 8), sizes, st.floats(-5, 5), st.floats(-5, 5))
def test_a_query_that_repels_the_others_does_not_depend_on_lengths(
    case: Setting, L: float, y_a: float, y_b: float
) -> None:
    """P24: q = -L Σ μ_i over all others gives 1/(2 + (n - 2) e^-L) twice, for all y_a and y_b."""
    lengths = np.ones(case.n)
    lengths[[case.a, case.b]] = y_a, y_b
    keys = lengthened(case.keys, lengths)
    assert_allclose(keys.numpy(), case.k * lengths[:, None], rtol=1e-15)
    c, weights = one_head(keys, case.values, repelling_query(case.keys, [case.a, case.b], L))
    each = 1 / (2 + (case.n - 2) * math.exp(-L))
    assert_allclose(weights.numpy()[[case.a, case.b]], each, **EXACT)
    assert_allclose(weights.numpy()[case.others], each * math.exp(-L), **EXACT)
    assert_allclose(c.numpy(), weights.numpy() @ case.v, **EXACT)


@given(settings_of(3, 9), st.floats(0.01, 15))
def test_without_noise_two_heads_have_a_larger_error_than_one(case: Setting, M: float) -> None:
    """P27: the weight of the others is (n - 2)/(n - 1 + e^M) and not (n - 2)/(n - 2 + 2 e^M)."""
    n, found = case.n, []
    first, second = (copying_query(case.keys, j, M) for j in (case.a, case.b))
    both = averaging_query(case.keys, [case.a, case.b], M)
    for heads, (c, weights), below in (
        (1, one_head(case.keys, case.values, both), n - 2 + 2 * math.exp(M)),
        (2, two_heads(case.keys, case.values, first, second), n - 1 + math.exp(M)),
    ):
        missing = (n - 2) / below
        assert_allclose(c.numpy() - case.middle, missing * (case.rest - case.middle), **EXACT)
        assert_allclose(weights.numpy()[case.others].sum(), missing, **EXACT)
        assert_allclose(averaging_error(n, M, heads), missing, rtol=1e-12)
        found.append(1 - weights.numpy()[[case.a, case.b]].sum())
    assert found[0] < found[1] < 2 * found[0] + 1e-12


@given(settings_of(1, 8))
def test_the_slope_of_the_output_by_the_query_is_a_covariance(case: Setting) -> None:
    """∂c/∂q = Vᵀ (diag α - α αᵀ) K."""
    q = Tensor(case.rng.standard_normal(case.k.shape[1]), requires_grad=True)
    g = case.rng.standard_normal(3)
    c, weights = attend(q, case.keys, case.values)
    c.backward(g)
    a = weights.numpy()
    assert_allclose(q.grad, g @ case.v.T @ (np.diag(a) - np.outer(a, a)) @ case.k, **EXACT)
    assert_allclose(ops.matmul(weights, case.values).numpy(), c.numpy(), **EXACT)
