"""Chapter 7: question 2 (g), continued: Linformer, and the rank of attention weights."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import AttentionBlock, Linformer, MultiHead, influence
from tinyattn.attention.core import attend
from tinyattn.nn import Parameter
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, TYPO, Claim
from tinyattn.theory.claims.other_types import WIDTHS, C, D, H, new, work_of
from tinyattn.theory.cost import formula_value
from tinyattn.theory.finding import Finding, equal, every, fact
from tinyattn.theory.lab import Lab, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.ranks import nearest_of_low_rank, weights_can_have_full_rank


def refuses_to_be_causal(block: AttentionBlock, x: Tensor) -> bool:
    """Whether it raises an error for causal=True."""
    try:
        block(x, causal=True)
    except ValueError as error:
        return "causal" in str(error)
    return False


@check(Linformer, MultiHead, influence, n=Whole(1, 8), k=Whole(1, 8))
def few_keys_of_full_width(lab: Lab, n: int, k: int) -> Finding:
    """The projection E gives k keys of d elements: it acts along positions, (k×n)(n×d) = k×d.

    F gives k values in the same way. So each key contains later positions, and the block cannot be
    causal. If E = F is a permutation, the attention is dense.
    """
    block, x = new(lab, Linformer, n, rows=k), lab.normal(1, n, C)
    q, plain = block.queries_and_keys(x, x)
    keys = ops.matmul(block.mix_keys, plain)
    weights = attend(q, keys, keys, scale=1 / math.sqrt(D))[1]
    dense, whole = new(lab, MultiHead, n), new(lab, Linformer, n, rows=n)
    for name in ("query", "key", "value", "out"):
        setattr(whole, name, getattr(dense, name))
    order = np.eye(n)[lab.rng.permutation(n)]
    whole.mix_keys, whole.mix_values = (Parameter(order, device=lab.device) for _ in "EF")
    permuted, bias = whole(x), dense.out.bias
    whole.mix_values.data = 2 * whole.mix_values.data
    return every(
        equal("keys", keys.shape[2], k),
        equal("elements of each key", H * keys.shape[3], C),
        equal("weights", block.weights(x), weights),
        equal("outputs, E and F a permutation,", permuted, dense(x)),
        equal("outputs without the bias, 2F", whole(x) - bias, (permuted - bias) * 2),
        fact(influence(block, n, False).all(), "all inputs change all outputs", "not all do"),
        fact(refuses_to_be_causal(block, x), "it cannot be causal", "it can be causal"),
    )


@check(Linformer, MultiHead, formula_value, n=Whole(1, 40), k=Whole(1, 30), d=WIDTHS)
def cheaper_below_half(lab: Lab, n: int, k: int, d: int) -> Finding:
    """Linformer needs 4nkd multiply-adds instead of 2n²d, fewer if and only if k < n/2.

    Both need 4nd² for the maps, so the ratio is (2d + 2k)/(2d + n), small only if also n ≫ 2d.
    """
    x = lab.normal(1, n, d)
    work, dense = (
        work_of(new(lab, block, n, d, **options), x)
        for block, options in ((Linformer, {"rows": k}), (MultiHead, {}))
    )
    formula = formula_value(Linformer.multiply_adds, {"T": n, "C": d, "R": k})
    return every(
        equal("multiply-adds", work, 4 * n * d**2 + 4 * n * k * d),
        equal("by the block's formula", float(formula), work),
        equal("work over dense work", work / dense, (2 * d + 2 * k) / (2 * d + n)),
        fact((work < dense) == (2 * k < n), "less iff k < n/2", "not: less iff k < n/2"),
    )


# fmt: off
CLAIMS = [
    Claim(
        "S002-3.g.1", "19", FALSE,
        says="the matrix of attention weights has low rank",
        check=weights_can_have_full_rank,
        literal=weights_can_have_full_rank.gives_at_most(
            "rank of the weights", lambda n, t, beta: n - 1
        ),
        witness={"n": 3, "t": 1.0, "beta": 1.0},
    ),
    Claim(
        "S002-3.g.2", "19", CONDITIONAL,
        says="a few largest singular values make up most of the matrix",
        check=nearest_of_low_rank,
        literal=nearest_of_low_rank.gives_at_most(
            "singular values for 90 % of the squares", lambda k, more, beta: k
        ),
        witness={"k": 8, "more": 56, "beta": 1.0},
    ),
    Claim(
        "S002-3.g.3", "19", TYPO,
        says="the projection gives k-dimensional keys and values",
        check=few_keys_of_full_width,
        literal=few_keys_of_full_width.gives("elements of each key", lambda n, k: k),
        witness={"n": 6, "k": 3},
    ),
    Claim(
        "S002-3.g.4", "19", CONDITIONAL,
        says="k ≪ n gives a significant speed-up",
        check=cheaper_below_half,
        literal=cheaper_below_half.gives_at_most("work over dense work", 0.5),
        witness={"n": 128, "k": 8, "d": 1024},
    ),
]
