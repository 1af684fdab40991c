"""Chapter 7: laws of attention weights: how they follow from the scores."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import focus
from tinyattn.backend import asarray, asnumpy
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, OneOf, Real, Reals, Whole, by_hand
from tinyattn.theory.law import law
from tinyattn.theory.queries import averaging_error, averaging_weight
from tinyattn.theory.weights import (
    imbalance,
    lead_needed,
    weight_bounds,
    weights_of,
)


def leading(lab: Lab, n: int, lead: float) -> list[float]:
    """Random scores; the first exceeds the second by `lead`, and the second all others."""
    others = sorted(lab.rng.uniform(-20, 0, n - 1).tolist(), reverse=True)
    return [others[0] + lead, *others]


def two_ahead(n: int, M: float) -> tuple[float, ...]:
    """n scores: M twice, and 0 for the others."""
    return (M, M, *[0.0] * (n - 2))


# A distribution ------------------------------------------------------------------------------


@law("03_softmax", ops.attention, scores=Reals(-1e4, 1e4, 1, 40))
def is_distribution(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """For any query, weights are exponentials over their sum: none is negative, they sum to 1."""
    weights = lab.weights(scores).numpy()
    return every(
        equal("weights", weights, by_hand(scores)),
        at_least("weights", weights, 0, 0),
        equal("their sum", weights.sum(), 1.0),
    )


@law("03_softmax", ops.attention, scores=Reals(-50, 50, 1, 12), shift=Real(-100, 100))
def only_differences_count(lab: Lab, scores: tuple[float, ...], shift: float) -> Finding:
    """A number that is added to all scores changes no weight."""
    return equal("weights", lab.weights(lab.tensor(scores) + shift), by_hand(scores))


@law("13_temperature", ops.attention, focus)
def diffuse_by_default(lab: Lab) -> Finding:
    """For normal scores of variance 1 over 128 keys the mean largest weight is 0.068.

    The mean entropy is 4.37 nats, of at most ln 128 = 4.85.
    """
    weights = weights_of(lab.normal(4000, 128))
    return every(
        equal("mean largest weight", weights.max(axis=-1).mean(), 0.0684, 0.003),
        equal("mean entropy", focus(weights.reshape(1, 1, 4000, 128)).mean(), 4.366, 0.012),
    )


@law("03_softmax", ops.softmax, ops.log_softmax, ops.logsumexp, batch=OneOf(((), (2,), (2, 3))),
     n=Whole(1, 40), size=Real(0, 1e4), shift=Real(-100, 100))  # fmt: skip
def softmax_is_a_distribution(
    lab: Lab, batch: tuple[int, ...], n: int, size: float, shift: float
) -> Finding:
    """Masked scores have the weight 0, the others sum to 1, or all are 0 if all are masked.

    A permutation of the scores permutes the weights; a number added to all scores changes nothing,
    so gradients sum to 0; log-softmax is s - logsumexp s.
    """
    s = size * lab.rng.uniform(-1, 1, (*batch, n))
    seen, order = lab.rng.random((*batch, n)) < 0.6, lab.rng.permutation(n)
    allowed = asarray(seen, device=lab.device)
    leaf = lab.leaf(s)
    p = ops.softmax(leaf, allowed)
    p.backward(lab.normal(*batch, n).data)
    permuted = ops.softmax(lab.tensor(s[..., order]), asarray(seen[..., order], device=lab.device))
    logs, rest = ops.log_softmax(lab.tensor(s)), ops.logsumexp(lab.tensor(s), -1, True)
    return every(
        equal("weights", p, by_hand(s, seen)),
        equal("weights without a mask", ops.softmax(lab.tensor(s)), by_hand(s)),
        equal("their sum", p.sum(axis=-1), seen.any(axis=-1)),
        at_least("weights", p, 0, 0),
        equal("permuted", permuted, p.numpy()[..., order]),
        equal("s + c", ops.softmax(lab.tensor(s + shift), allowed), p, 1e-9),
        at_most("|Σ dL/ds|", np.abs(asnumpy(leaf.grad).sum(axis=-1)).max(), 0),
        equal("log-softmax", logs, s - rest.numpy(), 1e-9),
    )


# A lead --------------------------------------------------------------------------------------


@law("07_copying", ops.attention, weight_bounds, n=Whole(2, 40), lead=Real(0, 40))
def lead_decides(lab: Lab, n: int, lead: float) -> Finding:
    """If s_j leads all other scores by Δ, 1/(1 + (n - 1)e^-Δ) ≤ α_j ≤ 1/(1 + e^-Δ).

    So the difference must be large, not the ratio. The least weight is attained if all other scores
    are equal, the largest if all but one of them are much lower.
    """
    low, high = weight_bounds(lead, n)
    top = lab.weights(leading(lab, n, lead), 1).item()
    return every(
        at_least("α_j", top, low),
        at_most("α_j", top, high),
        equal("least α_j", lab.weights([lead, *[0.0] * (n - 1)], 1).item(), low),
        equal("least α_j", low, 1 / (1 + (n - 1) * math.exp(-lead))),
        equal("largest α_j", lab.weights([lead, 0.0, *[-800.0] * (n - 2)], 1).item(), high),
    )


@law("07_copying", ops.attention, lead_needed,
     n=Whole(2, 200), eta=Real(1e-6, 0.49), shift=Real(-100, 100))  # fmt: skip
def lead_suffices(lab: Lab, n: int, eta: float, shift: float) -> Finding:
    """If s_j leads all others by ln((n - 1)(1 - η)/η), 1 - α_j ≤ η, whatever the scores are."""
    lead = lead_needed(n, eta)
    return every(
        equal("least α_j", lab.weights([lead + shift, *[shift] * (n - 1)], 1).item(), 1 - eta),
        at_least("α_j", lab.weights(leading(lab, n, lead), 1).item(), 1 - eta),
    )


@law("08_averaging", ops.attention, imbalance,
     scores=Reals(-300, 300, 1, 12), difference=Real(-40, 40))  # fmt: skip
def two_share_by_difference(lab: Lab, scores: tuple[float, ...], difference: float) -> Finding:
    """|α_a/(α_a + α_b) - ½| = ½ tanh(|s_a - s_b|/2); the smaller of α_a and α_b is at most ½.

    So for equal weights the difference must be well below 1; a ratio near 1 is not enough.
    """
    all_scores = (scores[0] + difference, *scores)
    weights, (a, b) = lab.weights(all_scores).numpy(), by_hand(all_scores[:2])
    return every(
        equal("weights", weights, by_hand(all_scores)),
        equal("α_a, α_b", weights[:2], by_hand(all_scores)[:2]),
        equal("sum of the weights", weights.sum(), 1.0),
        at_most("smaller of α_a and α_b", weights[:2].min(), 0.5),
        equal("α_a (1 - share)", weights[0] * b, weights[1] * a),
        equal("|share - ½|", abs(a - 0.5), imbalance(difference)),
    )


@law("08_averaging", ops.attention, averaging_weight, n=Whole(3, 40), lead=Real(0, 40))
def pair_between_bounds(lab: Lab, n: int, lead: float) -> Finding:
    """Two equal scores that lead the next by Δ: 1/(2 + (n - 2)e^-Δ) ≤ α_a ≤ 1/(2 + e^-Δ)."""
    others = sorted(lab.rng.uniform(-20, 0, n - 2).tolist(), reverse=True)
    weight = lab.weights((others[0] + lead, others[0] + lead, *others), 1)
    return every(
        at_least("α_a", weight, averaging_weight(n, lead)),
        at_most("α_a", weight, averaging_weight(3, lead)),
    )


@law("08_averaging", ops.attention, lead_needed, n=Whole(3, 200), eta=Real(1e-6, 0.9))
def lead_for_two(lab: Lab, n: int, eta: float) -> Finding:
    """Scores M, M, 0, .. with M = ln((n - 2)(1 - η)/(2η)): α_a = α_b = (1 - η)/2.

    The n - 2 other keys together have the weight η.
    """
    weights = lab.weights(two_ahead(n, lead_needed(n, eta, many=2)))
    return every(
        equal("weight of the others", weights[2:].sum(), eta),
        equal("α_a, α_b", weights[:2], [(1 - eta) / 2] * 2),
    )


@law("08_averaging", ops.attention, averaging_error, n=Whole(2, 9), M=Real(0, 60))
def never_exactly_half(lab: Lab, n: int, M: float) -> Finding:
    """Scores M, M, 0, ..: α_a is ½ only for n = 2; else ½ - α_a = (n - 2)/(2(n - 2 + 2e^M)) > 0.

    But float64 rounds α_a to ½ if M is large: for n ≤ 9 never below 34, always above 40.
    """
    lab.conventions.needs("float64")
    weight = lab.weights(two_ahead(n, M), 1).item()
    if n == 2 or M > 40:
        return equal("α_a", weight, 0.5, 0)
    return every(
        equal("α_a", weight, 0.5 - averaging_error(n, M) / 2),
        equal("½ - α_a:", 0.5 - weight, (n - 2) / (2 * (n - 2 + 2 * math.exp(M)))),
        equal("weight of the others", 1 - 2 * weight, averaging_error(n, M)),
        fact(weight < 0.5 or M > 34, "α_a < ½", "α_a reaches ½"),
    )


@law("06_attention", ops.attention, n=Whole(2, 9))
def masking_divides_by_the_rest(lab: Lab, n: int) -> Finding:
    """To mask key j is to set α_j to 0, and to divide the others by their sum, if that is not 0.

    The ratios of the others do not depend on the masked score.
    """
    scores, j = lab.normal(n).numpy(), int(lab.rng.integers(n))
    others = np.delete(lab.weights(scores).numpy(), j)
    masked = lab.weights(np.delete(scores, j))
    return equal("weights without key j", masked, others / others.sum())
