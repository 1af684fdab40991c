"""Claims: sheet 003, problem 1: a dependency tree as attention weights.

Next: losses that make heads look so.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn.attention import MultiHead
from tinyattn.attention.core import split_heads
from tinyattn.attention.dependency import dependency_block, dependency_scores, read_arcs
from tinyattn.models.layer import Layer
from tinyattn.theory.claim import CONDITIONAL, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.weights import weights_of

PREFER = ((2, 0, 5, 5, 2, 7, 5), (0, 5, 2, 3, 1, 4, 3))
"""I prefer the morning flight through Denver: governors, and relations nsubj, obj, det, nmod, case,
root. Word 2 governs word 5 by relation 1."""


# What is true --------------------------------------------------------------------------------


def tree_as_weights(lab: Lab, n: int, heads: int, beta: float) -> Finding:
    """m dependents share e^β/(m e^β + n + 1 - m) each; all other rows look at the root."""
    order, governors = lab.rng.permutation(n) + 1, [0] * n
    for i in range(1, n):
        governors[order[i] - 1] = int(order[lab.rng.integers(i)])
    relations = lab.rng.integers(heads, size=n).tolist()
    scores = dependency_scores(governors, relations, heads, beta)
    weights, wanted = weights_of(lab.tensor(scores)).numpy(), np.full(scores.shape, np.nan)
    idle, rest = 0, math.exp(-beta)
    for k in range(heads):
        for t in range(n + 1):
            told = [d for d in range(1, n + 1) if (governors[d - 1], relations[d - 1]) == (t, k)]
            idle += not told and t > 0
            m = len(told) or 1
            wanted[k, t] = rest / (m + (n + 1 - m) * rest)
            wanted[k, t, told or [0]] = 1 / (m + (n + 1 - m) * rest)
    block, x = dependency_block(governors, relations, heads, sharpness=beta)
    block.to(lab.device)
    found = block.weights(x.to(lab.device)).numpy()[0]
    read = beta < math.log(n + 1) + 0.01 or read_arcs(weights) == (governors, relations)
    return every(
        equal("weights", weights, wanted),
        equal("those of the block, in float32,", found, wanted, 1e-4),
        fact(read, "the tree is read back", "another tree is read"),
        at_least("rows with nothing to look at", idle, heads * n - (n - 1)),
    )


def size_of_gpt_3(lab: Lab) -> Finding:
    """96 heads of 128 numbers make its width, 12,288; 96 such layers, and words, 175 billion.

    A layer's parameters are a polynomial of degree 2 in its width, so three small ones give it.
    """
    x = lab.normal(1, 2, 12_288)
    widths = (8, 16, 24)
    sizes = [size_of_layer(lab, C) for C in widths]
    a_layer = np.polyval(np.polyfit(widths, sizes, 2), 12_288)
    return every(
        equal("numbers in a layer", sizes, [12 * C**2 + 13 * C for C in widths]),
        equal("heads", split_heads(x, 96), x.numpy().reshape(1, 2, 96, 128).swapaxes(1, 2)),
        equal("parameters in billions", (96 * a_layer + (50_257 + 2048) * 12_288) / 1e9, 175, 0.5),
    )


def size_of_layer(lab: Lab, width: int) -> int:
    """How many parameters a transformer's layer has."""
    block = lab.block(MultiHead, width, 8, longest=1)
    layer = Layer(block, rng=lab.rng, exact_gelu=True, dropout=0)
    return sum(parameter.size for parameter in layer.parameters())


# What the sheets say -------------------------------------------------------------------------


def weight_is_one(lab: Lab, beta: float) -> Finding:
    """α(obj, prefer, flight) = 1, from scores of β and 0."""
    scores = dependency_scores(*PREFER, heads=6, sharpness=beta)
    return equal("α(obj, prefer, flight)", weights_of(lab.tensor(scores)).numpy()[1, 2, 5], 1)


# fmt: off
CLAIMS = [
    Claim(
        "S003-1.a", "9-13", CONDITIONAL,
        says="head dobj, at prefer, has the weight 1 on flight and 0 elsewhere",
        truth="1/(1 + n e^-β), from scores of β and 0 over n + 1 places: 1 in the limit only; m "
        "dependents by one relation share; and of KT rows all but T - 1 at most have nobody to "
        "look at, yet must sum to 1: here they look at the root",
        under_test=(dependency_scores, dependency_block, read_arcs),
        corrected=tree_as_weights,
        domain={"n": Whole(1, 9), "heads": Whole(1, 6), "beta": Real(0, 60)},
        literal=weight_is_one, witness={"beta": 5.0},
    ),
    Claim(
        "S003-1.b.1", "15", TYPO,
        says="GTP-3 has 96 heads in each of 96 layers",
        truth="GPT-3; the numbers are those of Brown and others 2020, table 2.1, and fit its "
        "width, 96 · 128 = 12,288, and its 175 billion parameters",
        under_test=(split_heads,),
        corrected=size_of_gpt_3,
        literal=lambda lab, name: fact(name == "GPT-3", "so it is called", "it is called GPT-3"),
        witness={"name": "GTP-3"},
    ),
]
