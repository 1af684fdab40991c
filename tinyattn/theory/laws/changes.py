"""Chapter 7: laws of attention weights: how they move with the scores, and where they round."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import focus
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals
from tinyattn.theory.law import law
from tinyattn.theory.temperature import moments_at
from tinyattn.theory.weights import (
    jacobian,
    largest_move,
    weights_of,
)

# Changes of scores ---------------------------------------------------------------------------


def gradient(y: Tensor, of: Tensor, towards: np.ndarray | None = None) -> np.ndarray:
    """The gradient of `y`, or of its dot product with `towards`, by backward; a NumPy array."""
    of.zero_grad()
    y.backward(towards, retain_graph=True)
    found: np.ndarray = asnumpy(of.grad)
    return found


def jacobian_by_backward(y: Tensor, x: Tensor) -> np.ndarray:
    """∂y_i/∂x_j, row by row."""
    return np.array([gradient(y, x, row) for row in np.eye(y.shape[0])])


@law("03_softmax", ops.attention, jacobian, scores=Reals(-50, 50, 1, 8))
def weights_move_by_their_covariance(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """∂α/∂s = J = diag α - ααᵀ is symmetric, and J 1 = 0.

    Its eigenvalues are from 0 to the smaller of ½, attained at (½, ½, 0, ..), and 2(1 - max α).
    """
    s, half = lab.leaf(scores), lab.tensor([0.5, 0.5, 0.0])
    weights = lab.weights(s)
    found, a = jacobian_by_backward(weights, s), weights.numpy()
    values = np.linalg.eigvalsh(found)
    return every(
        equal("J", jacobian(weights), found),
        equal("J by backward", found, np.diag(a) - np.outer(a, a)),
        equal("J 1", found.sum(axis=1), np.zeros(len(a))),
        at_least("eigenvalues", values, 0),
        at_most("the largest eigenvalue", values.max(), min(0.5, 2 * (1 - a.max()))),
        equal("that for (½, ½, 0):", np.linalg.eigvalsh(jacobian(half).numpy()).max(), 0.5),
    )


@law("03_softmax", ops.attention, largest_move, scores=Reals(-50, 50, 1, 12), delta=Real(0, 50))
def weights_move_less_than_scores(lab: Lab, scores: tuple[float, ...], delta: float) -> Finding:
    """Σ |Δα_i| ≤ 2 tanh(r/4) ≤ max |Δs_i|, r = max Δs - min Δs; two keys attain the first bound."""
    change = delta * lab.rng.uniform(-1, 1, len(scores))
    before, after = (lab.weights(np.array(scores) + c) for c in (0, change))
    bound, r = 2 * largest_move(lab.tensor(change)), np.ptp(change)
    two = [lab.weights([x * r / 2, 0.0]).numpy() for x in (-1, 1)]
    return every(
        at_most("Σ |Δα|", np.abs((after - before).numpy()).sum(), bound),
        at_most("the bound", bound, np.abs(change).max()),
        equal("the bound", bound, 2 * math.tanh(r / 4)),
        equal("Σ |Δα| from (-r/2, 0) to (r/2, 0)", np.abs(two[1] - two[0]).sum(), bound),
    )


@law("13_temperature", ops.attention, focus, moments_at,
     scores=Reals(-10, 10, 1, 20), beta=Real(0, 5), step=Real(0, 2))  # fmt: skip
def a_factor_sharpens(lab: Lab, scores: tuple[float, ...], beta: float, step: float) -> Finding:
    """A larger factor β on the scores raises the largest weight and the mean score E.

    It lowers the entropy H: dE/dβ = Var(s) ≥ 0 and dH/dβ = -β Var(s), with the mean, the variance
    and the entropy under the weights.
    """
    s = lab.tensor(scores)
    low, high = (weights_of(s * b) for b in (beta, beta + step))
    factor, again = lab.leaf(beta), lab.leaf(beta)
    mean, variance = moments_at(s, factor)
    mean.backward()
    focus(weights_of(s * again)).backward()
    return every(
        at_least("largest weight at larger β", high.max(), low.max()),
        at_least("mean score", moments_at(s, beta + step)[0], mean),
        at_most("entropy", focus(high), focus(low)),
        equal("dE/dβ", asnumpy(factor.grad), variance),
        equal("dH/dβ", asnumpy(again.grad), -beta * variance.numpy()),
    )


@law("03_softmax", ops.attention, scores=Reals(-3, 3, 1, 12), beta=Real(0, 1))
def small_scores_give_equal_weights(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """α_i = 1/n + β(s_i - s̄)/n, with an error of at most β²R²e^(βR)/2n, R = max s - min s."""
    x, n = np.array(scores), len(scores)
    found = lab.weights(lab.tensor(scores) * beta).numpy()
    reach = beta * np.ptp(x)
    off = np.abs(found - (1 + beta * (x - x.mean())) / n)
    return at_most("largest difference", off.max(), reach**2 * math.exp(reach) / (2 * n))


@law("03_softmax", ops.attention, scores=Reals(-50, 50, 1, 12), beta=Real(60, 1e4))
def large_factors_select(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """For a large factor β only the keys with the largest score have weight, all the same."""
    whole = np.round(scores)  # some are equal; other gaps are at least 1
    best = whole == whole.max()
    return equal("weights", lab.weights(whole * beta), best / best.sum())


@law("03_softmax", ops.logsumexp, ops.attention, scores=Reals(-1e4, 1e4, 1, 20))
def logsumexp_is_a_soft_maximum(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """max s ≤ logsumexp s ≤ max s + ln n, and its gradient is the softmax."""
    s, n, top = lab.leaf(scores), len(scores), max(scores)
    y = ops.logsumexp(s)
    exactly = top + math.log(math.fsum(math.exp(x - top) for x in scores))
    alike = ops.logsumexp(lab.tensor([top] * n)).item()
    return every(
        equal("logsumexp", y.item(), exactly, 1e-10),
        at_least("logsumexp", exactly, top, 0),
        at_most("logsumexp", exactly, top + math.log(n), 1e-10),
        equal("if all equal", alike, top + math.log(n), 1e-10),
        equal("its gradient", gradient(y, s), lab.weights(scores)),
    )


# Rounding ------------------------------------------------------------------------------------

LARGEST = math.log(np.finfo(np.float64).max)
"""The largest number whose exponential is finite, 709.78."""


@law("03_softmax", ops.softmax, ops.attention, focus, score=Real(0, 5000))
def no_nan_where_plain_formulas_break(lab: Lab, score: float) -> Finding:
    """The plain formulas give NaN for exp of a score above 709.78.

    They also do for a row without an allowed key, and for 0 ln 0. In these three cases this package
    returns the weights, zeros, and 0.
    """
    scores, zero = np.array([score, 0.0]), np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        plain = np.exp(scores) / np.exp(scores).sum()
        none = np.exp([-np.inf, -np.inf]) / np.exp([-np.inf, -np.inf]).sum()
        product = zero * np.log(zero)
    rival, none_allowed = math.exp(-score), lab.tensor([0.0, 0.0]).data > 0
    q, keys, values = lab.tensor([[1.0]]), lab.tensor([[score], [0.0]]), lab.tensor([[1.0], [2.0]])
    weights = np.array([1, rival]) / (1 + rival)
    zeros = lab.can("mask") and lab.conventions.no_key == "zeros"  # others declare something else
    alone = ops.attention(q, keys, values, none_allowed[None]) if zeros else [[0.0]]
    return every(
        fact(np.isnan(plain[0]) == (score > LARGEST), "plain exp: NaN beyond 709.78", f"{plain}"),
        fact(np.isnan([*none, product[1]]).all(), "NaN by the formulas", "no NaN by the formulas"),
        equal("softmax", ops.softmax(lab.tensor(scores)), weights),
        equal("attention", ops.attention(q, keys, values, scale=1.0), [[weights @ [1, 2]]]),
        equal("entropy", focus(lab.tensor([[[[0.5, 0.5]]]])).item(), math.log(2)),
        equal("no key allowed: softmax", ops.softmax(lab.tensor(scores), none_allowed), [0, 0], 0),
        equal("attention", alone, [[0.0]], 0),
        equal("entropy with 0 ln 0", focus(lab.tensor(zero).reshape(1, 1, 1, 2)).item(), 0, 0),
    )


@law("03_softmax", ops.attention, beyond=Real(0.01, 50))
def where_weights_underflow(lab: Lab, beyond: float) -> Finding:
    """A weight is 0 if another score leads by more than ln 2^1075 = 745.13 in float64.

    In float32 this lead is ln 2^150 = 103.97.
    """
    lab.conventions.needs("float64")
    findings = []
    for dtype, bits in (("float64", 1075), ("float32", 150)):
        edge = bits * math.log(2)
        for lead in (edge - beyond, edge + beyond):
            weight = weights_of(Tensor(np.array([lead, 0], dtype), device=lab.device)).numpy()[1]
            wanted = weight > 0 if lead < edge else weight == 0
            yes, no = f"{dtype}: right at {lead:.2f}", f"{dtype}: {lead}: {weight}"
            findings.append(fact(wanted, yes, no))
    return every(*findings)
