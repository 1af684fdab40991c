"""Chapter 7: the attention weights are a distribution, and the output an average of values."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import focus
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Reals, by_hand
from tinyattn.theory.queries import query_of
from tinyattn.theory.weights import weights_of

# What is true --------------------------------------------------------------------------------


def is_distribution(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """Weights are exponentials divided by their sum: they are not negative and sum to 1."""
    weights = lab.weights(scores).numpy()
    return every(
        equal("weights", weights, by_hand(scores)),
        at_least("weights", weights, 0, 0),
        equal("their sum", weights.sum(), 1.0),
    )


def inside_the_hull(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """The output is in the convex hull: in every direction between the extremes of the values."""
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


def diffuse_by_default(lab: Lab) -> Finding:
    """For scores of variance 1 over 128 keys the largest weight is 0.07, the entropy 4.4 nats."""
    weights = weights_of(lab.normal(4000, 128))
    return every(
        equal("mean largest weight", weights.max(axis=-1).mean(), 0.0684, 0.003),
        equal("mean entropy", focus(weights.reshape(1, 1, 4000, 128)).mean(), 4.366, 0.012),
    )


# What the sheets say -------------------------------------------------------------------------


def sum_is_enough(lab: Lab, weights: tuple[float, float]) -> Finding:
    """Two numbers that sum to 1 are the attention weights of some scores."""
    leads = np.linspace(-40, 40, 801)
    found = weights_of(lab.tensor(np.stack([leads, 0 * leads], axis=1))).numpy()
    nearest = found[np.abs(found - weights).sum(axis=1).argmin()].round(9)
    return equal("nearest weights of two keys", nearest, weights, NEARLY)


def _scores_of_an_exact_match(lab: Lab, n: int) -> tuple[float, ...]:
    """The scores of a query that is one of the keys."""
    keys = lab.orthonormal(n)
    return tuple(ops.matmul(keys, keys[0]).numpy())


# fmt: off
CLAIMS = [
    Claim(
        "S001-a.i", "9-13", CONDITIONAL,
        says="α is a categorical distribution because its sum is 1",
        truth="a second condition is needed: no weight is negative, as exp is positive",
        under_test=(ops.attention,),
        corrected=is_distribution, domain={"scores": Reals(-1e4, 1e4, 1, 40)},
        literal=sum_is_enough,
        witness={"weights": (2.0, -1.0)},
    ),
    Claim(
        "S004-hdr", "26", TRUE, of_question=True,
        says="c is an average of the values, weighted by α",
        truth="c is in their convex hull: u·c is from min u·v_i to max u·v_i for every vector u",
        under_test=(ops.attention, query_of),
        corrected=inside_the_hull, domain={"scores": Reals(-50, 50, 1, 8)},
    ),
    Claim(
        "S004-a.i", "32", FALSE,
        says="α is a distribution because a query cannot match a key exactly",
        truth="α is a distribution for any query: no α_i is negative, and the sum is 1",
        under_test=(ops.attention,),
        corrected=is_distribution, domain={"scores": Reals(-1e4, 1e4, 1, 40)},
        literal=lambda lab, n: fact(
            not is_distribution(lab, _scores_of_an_exact_match(lab, n)).holds,
            "if a query equals a key, the weights are no distribution",
            "the query equals a key, and its weights are a distribution, too",
        ),
        witness={"n": 4},
    ),
    Claim(
        "S004-a.ii.1", "34", CONDITIONAL, of_question=True,
        says="α is typically diffuse",
        truth="true for scores of variance 1: with 128 keys, the mean largest weight is 0.068, "
        "and the mean entropy is 4.37 nats, of at most 4.85",
        under_test=(ops.attention, focus),
        corrected=diffuse_by_default,
        literal=lambda lab, n, variance: at_most(
            "mean largest weight",
            weights_of(lab.normal(400, n) * math.sqrt(variance)).max(axis=-1).mean(),
            0.1,
        ),
        witness={"n": 128, "variance": 64},
    ),
]
