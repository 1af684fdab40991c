"""The lead of a score, bounds for changes of weights, and a factor on all scores."""

import math

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import scores_of, seeds

from tinyattn import Tensor, ops
from tinyattn.attention import focus
from tinyattn.theory import (
    imbalance,
    jacobian,
    largest_move,
    lead_needed,
    moments_at,
    weight_bounds,
)

EXACT = {"rtol": 0, "atol": 1e-13}
several = scores_of(2, 9)


# A lead ------------------------------------------------------------------------------------


@given(several)
def test_the_lead_of_the_largest_score_bounds_its_weight(s: np.ndarray) -> None:
    """P05: 1/(1 + (n - 1) e^-Δ) ≤ max α ≤ 1/(1 + e^-Δ)."""
    n, (second, first) = len(s), np.sort(s)[-2:]
    rival = math.exp(second - first)
    low, high = 1 / (1 + (n - 1) * rival), 1 / (1 + rival)
    assert low - 1e-13 <= ops.softmax(s).numpy().max() <= high + 1e-13
    assert_allclose(weight_bounds(first - second, n), (low, high), rtol=1e-14)


@given(st.integers(2, 40), st.floats(0, 40))
def test_both_bounds_are_reached(n: int, lead: float) -> None:
    """P06: the lower one if all others are equal, the upper one if all but one are much smaller."""
    tied, far = np.zeros(n), np.full(n, -800.0)
    far[:2] = tied[0], far[0] = lead, lead
    far[1] = 0
    low, high = weight_bounds(lead, n)
    for scores, bound, rivals in ((tied, low, n - 1), (far, high, 1)):
        top = ops.softmax(scores).numpy()[0]
        assert_allclose([top, bound], 1 / (1 + rivals * math.exp(-lead)), rtol=0, atol=1e-14)


@given(st.integers(2, 60), st.floats(1e-9, 0.999), st.data())
def test_the_needed_lead_gives_exactly_the_error(n: int, error: float, data: st.DataObject) -> None:
    """It may be negative, if uniform weights already have a smaller error."""
    chosen = data.draw(st.integers(1, n - 1))
    scores = np.zeros(n)
    scores[:chosen] = lead_needed(n, error, chosen)
    assert_allclose(ops.softmax(scores).numpy()[chosen:].sum(), error, rtol=1e-10)


@given(st.floats(-60, 60), st.lists(st.floats(-9, 9), max_size=4))
def test_two_scores_divide_their_weight_by_their_difference(
    difference: float, others: list[float]
) -> None:
    """P17: |α_a/(α_a + α_b) - ½| = ½ tanh(|s_a - s_b|/2)."""
    a, b = ops.softmax(np.array([difference, 0.0, *others])).numpy()[:2]
    expected = math.tanh(abs(difference) / 2) / 2
    assert abs(a / (a + b) - 0.5) == pytest.approx(expected, rel=0, abs=1e-14)
    assert imbalance(difference) == pytest.approx(expected, rel=0, abs=1e-15)


@given(several, st.integers(1, 5))
def test_equal_keys_are_one_key_with_a_higher_score(s: np.ndarray, copies: int) -> None:
    """m equal keys are like one key with score + ln m."""
    many = ops.softmax(np.concatenate([s, np.full(copies - 1, s[-1])])).numpy()
    one = ops.softmax(np.append(s[:-1], s[-1] + math.log(copies))).numpy()
    assert_allclose([*many[: len(s) - 1], many[len(s) - 1 :].sum()], one, **EXACT)


@given(several)
def test_logsumexp_is_nearly_the_maximum(s: np.ndarray) -> None:
    """max s ≤ ln Σ e^s ≤ max s + ln n, and its gradient is the softmax."""
    leaf = Tensor(s, requires_grad=True)
    y = ops.logsumexp(leaf)
    y.backward()
    assert s.max() - 1e-13 <= y.item() <= s.max() + math.log(len(s)) + 1e-13
    assert_allclose(leaf.grad, plain.softmax(s), **EXACT)


# Small changes -----------------------------------------------------------------------------


@given(scores_of(1, 8), seeds)
def test_how_weights_change_with_scores(s: np.ndarray, seed: int) -> None:
    """P04: by diag(α) - α αᵀ: symmetric, positive semidefinite, rows sum to 0, norm ≤ ½."""
    a, n = plain.softmax(s), len(s)
    expected = np.diag(a) - np.outer(a, a)
    leaf = Tensor(s, requires_grad=True)
    weights = ops.softmax(leaf)
    gs = [*np.eye(n), np.random.default_rng(seed).standard_normal(n)]
    found = []
    for g in gs:
        leaf.zero_grad()
        weights.backward(g, retain_graph=True)
        found.append(leaf.grad)
    assert_allclose(found, gs @ expected, **EXACT)
    J = jacobian(weights).numpy()
    assert_allclose(J, expected, **EXACT)
    assert_allclose(J, J.T, **EXACT)
    assert_allclose(J.sum(axis=0), 0, **EXACT)
    assert np.linalg.eigvalsh(J).min() >= -1e-13
    assert np.linalg.norm(J, 2) <= min(0.5, 2 * (1 - a.max())) + 1e-13


@given(several, st.data())
def test_the_change_of_weights_is_bounded_by_the_change_of_scores(
    s: np.ndarray, data: st.DataObject
) -> None:
    """P07: ½ Σ|Δα| ≤ tanh((max Δs - min Δs)/4), and |Δα| ≤ ½ |Δs|."""
    change = data.draw(scores_of(len(s), len(s)))
    moved = ops.softmax(s + change).numpy() - ops.softmax(s).numpy()
    bound = math.tanh((change.max() - change.min()) / 4)
    assert np.abs(moved).sum() / 2 <= bound + 1e-13
    assert np.linalg.norm(moved) <= np.linalg.norm(change) / 2 + 1e-13
    assert largest_move(change) == pytest.approx(bound, abs=1e-14)


@given(st.floats(0, 100))
def test_two_weights_can_reach_this_bound(r: float) -> None:
    before, after = (ops.softmax(np.array([s, 0.0])).numpy() for s in (-r / 2, r / 2))
    assert abs(after - before).sum() / 2 == pytest.approx(largest_move([r, 0.0]), abs=1e-14)


# A factor on all scores --------------------------------------------------------------------


@given(several, st.floats(0, 3), st.floats(0, 3))
def test_a_factor_sharpens_the_weights(s: np.ndarray, one: float, other: float) -> None:
    """P08: with β the largest weight and the mean score rise, by dE/dβ = Var; the entropy falls."""
    low, high = sorted((one, other))
    mild, sharp = (ops.softmax(s * beta) for beta in (low, high))
    assert sharp.numpy().max() >= mild.numpy().max() - 1e-12
    assert sharp.numpy() @ s >= mild.numpy() @ s - 1e-11
    assert focus(sharp).item() <= focus(mild).item() + 1e-11
    a = plain.softmax(s * high)
    variance = a @ (s - a @ s) ** 2
    beta = Tensor(high, requires_grad=True)
    found = moments_at(Tensor(s), beta)
    assert_allclose([x.item() for x in found], [a @ s, variance], rtol=1e-9, atol=1e-9)
    found[0].backward()
    assert_allclose(beta.grad, variance, rtol=1e-9, atol=1e-9)
    beta.zero_grad()
    focus(ops.softmax(beta * s)).backward()
    assert_allclose(beta.grad, -high * variance, rtol=1e-9, atol=1e-9)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9), st.floats(0, 0.2))
def test_a_small_factor_gives_uniform_weights_and_a_large_one_selects(
    whole: list[int], beta: float
) -> None:
    """P09: |α - 1/n| ≤ (e^βR - 1)/n, R the range of scores; for large β uniform over the top."""
    s, n = np.array(whole, float), len(whole)
    R = s.max() - s.min()
    a = ops.softmax(beta * s).numpy()
    assert np.abs(a - 1 / n).max() <= math.expm1(beta * R) / n + 1e-13
    first_order = (1 + beta * (s - s.mean())) / n
    assert np.abs(a - first_order).max() <= (beta * R) ** 2 / 2 + 1e-13
    largest = s == s.max()
    assert_allclose(ops.softmax(800 * s).numpy(), largest / largest.sum(), rtol=1e-15)
