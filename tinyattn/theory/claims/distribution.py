"""Chapter 7: the attention weights are a distribution, and the output an average of values."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_most, equal, fact
from tinyattn.theory.lab import Lab
from tinyattn.theory.laws.queries import inside_the_hull
from tinyattn.theory.laws.weights import diffuse_by_default, is_distribution
from tinyattn.theory.weights import weights_of


def sum_is_enough(lab: Lab, weights: tuple[float, float]) -> Finding:
    """Two numbers that sum to 1 are the attention weights of some scores."""
    leads = np.linspace(-40, 40, 801)
    found = weights_of(lab.tensor(np.stack([leads, 0 * leads], axis=1))).numpy()
    nearest = found[np.abs(found - weights).sum(axis=1).argmin()].round(9)
    return equal("nearest weights of two keys", nearest, weights, NEARLY)


def no_distribution_if_a_key_matches(lab: Lab, n: int) -> Finding:
    """The weights are no distribution if the query is one of the keys."""
    keys = lab.orthonormal(n)
    scores = tuple(ops.matmul(keys, keys[0]).numpy())
    return fact(
        not is_distribution(lab, scores).holds,
        "if a query equals a key, the weights are no distribution",
        "the query equals a key, and its weights are a distribution, too",
    )


def diffuse(lab: Lab, n: int, variance: float) -> Finding:
    """The largest weight is small for normal scores."""
    weights = weights_of(lab.normal(400, n) * math.sqrt(variance))
    return at_most("mean largest weight", weights.max(axis=-1).mean(), 0.1)


# fmt: off
CLAIMS = [
    Claim(
        "S001-a.i", "9-13", CONDITIONAL,
        says="α is a categorical distribution because its sum is 1",
        truth="a second condition is needed: no weight is negative, as exp is positive",
        check=is_distribution, literal=sum_is_enough, witness={"weights": (2.0, -1.0)},
    ),
    Claim(
        "S004-hdr", "26", TRUE, of_question=True,
        says="c is an average of the values, weighted by α",
        check=inside_the_hull,
    ),
    Claim(
        "S004-a.i", "32", FALSE,
        says="α is a distribution because a query cannot match a key exactly",
        check=is_distribution, literal=no_distribution_if_a_key_matches, witness={"n": 4},
    ),
    Claim(
        "S004-a.ii.1", "34", CONDITIONAL, of_question=True,
        says="α is typically diffuse",
        check=diffuse_by_default, literal=diffuse, witness={"n": 128, "variance": 64},
    ),
]
