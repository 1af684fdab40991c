"""Chapter 7: answer sheet 003, problem 1: a dependency tree as attention weights."""

from __future__ import annotations

import math

import numpy as np

from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.dependency import dependency_block, dependency_scores, read_arcs
from tinyattn.theory.finding import Finding, at_least, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import check
from tinyattn.theory.weights import weights_of


@check(dependency_scores, dependency_block, read_arcs,
       n=Whole(1, 9), heads=Whole(1, 6), beta=Real(0, 60))  # fmt: skip
def tree_as_weights(lab: Lab, n: int, heads: int, beta: float) -> Finding:
    """With scores of β and 0 a single dependent of n words has the weight 1/(1 + n e^-β), near 1.

    m dependents by one relation share the weight: 1/(m + (n + 1 - m)e^-β) each. Of KT rows of T
    words at most T - 1 have a dependent, but each must sum to 1: here the rest attend to the root.
    """
    order, governors = lab.rng.permutation(n) + 1, [0] * n
    for i in range(1, n):
        governors[order[i] - 1] = int(order[lab.rng.integers(i)])
    relations = lab.rng.integers(heads, size=n).tolist()
    scores = dependency_scores(governors, relations, heads, beta)
    weights, wanted = weights_of(lab.tensor(scores)).numpy(), np.full(scores.shape, np.nan)
    idle, rest = 0, math.exp(-beta)
    for k in range(heads):
        for t in range(n + 1):
            own = [d for d in range(1, n + 1) if (governors[d - 1], relations[d - 1]) == (t, k)]
            idle += not own and t > 0
            m = len(own) or 1
            wanted[k, t] = rest / (m + (n + 1 - m) * rest)
            wanted[k, t, own or [0]] = 1 / (m + (n + 1 - m) * rest)
    block, x = dependency_block(governors, relations, heads, sharpness=beta)
    block.to(lab.device)
    found = block.weights(x.to(lab.device)).numpy()[0]
    read = beta < math.log(n + 1) + 0.01 or read_arcs(weights) == (governors, relations)
    return every(
        equal("weights", weights, wanted),
        equal("weights of the block, in float32:", found, wanted, 1e-4),
        fact(read, "the weights give the tree", "the weights give another tree"),
        at_least("rows of words without a dependent", idle, heads * n - (n - 1)),
    )


# fmt: off
CLAIMS = [
    Claim(
        "S003-1.a", "9-13", TRUE,
        says="the parse corresponds to a head dobj whose weight from prefer on flight is 1",
        check=tree_as_weights,
    ),
]
