"""Chapter 7: question 2 (g), what the sheets say of other attentions, tried on the blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.attention import BigBird, MultiHead, Synthesizer, hops, influence
from tinyattn.attention.bigbird import pattern
from tinyattn.backend import asarray, asnumpy
from tinyattn.models.layer import Layer
from tinyattn.models.perceiver import Perceiver
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, OPEN, TRUE, TYPO, Claim
from tinyattn.theory.cost import formula_value
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Whole

C, H = 4, 2
D = C // H
CONSTANT = 10
"""What O(..) may hide, at most, if it is to say anything."""
LEADS_AWAY = 1e-9
"""A gradient that is more than rounding errors."""


def new(lab: Lab, kind: Any, n: int, **options: int) -> Any:
    """A block for n positions, with large random parameters."""
    return lab.block(kind, C, H, longest=n, **options)


def work_of(block: MultiHead, x: Tensor) -> int:
    """Multiply-adds: all positions meet the four matrices, and each weight a key and a value."""
    maps = (block.query, block.key, block.value, block.out)
    mixing = [
        getattr(block, name).size for name in ("mix_keys", "mix_values") if hasattr(block, name)
    ]
    n, entries = x.shape[1], sum(linear.weight.size for linear in maps)
    pairs = np.count_nonzero(block.weights(x).numpy())
    return int(n * entries + sum(mixing) * C + 2 * pairs * D)


def perceiver_pairs(lab: Lab, n: int, m: int, L: int) -> int:
    """How many pairs of query and key the layers of a Perceiver look at, counted from weights."""
    model: Any = Perceiver(C, rng=lab.rng, latents=m).to(lab.device)
    stack = [
        Layer(MultiHead(C, 1, longest=n, rng=lab.rng), rng=lab.rng, exact_gelu=True, dropout=0)
        for _ in range(L)
    ]
    for layer in stack:
        layer.to(lab.device)
    seen: list[Tensor] = []
    model(Tensor(np.zeros((1, n, C), np.float32), device=lab.device), stack, watch=seen)
    return sum(weights.size for weights in seen)


def graph(n: int, window: int, first: int, random: int = 0) -> np.ndarray:
    """Who sees whom in BigBird's pattern with blocks of one position, both ways."""
    lists = pattern(n, 2 * window + 1, first, random, 0, False)
    sees: np.ndarray = (lists[:, :, None] == np.arange(n)).any(axis=1)
    sees[:first] = True
    return sees


def largest_gradient(lab: Lab, n: int, size: float) -> float:
    """Of the maps to queries and keys, which begin `size` times as large as the others do."""
    block, x = new(lab, BigBird, n, block=1), lab.normal(1, n, C)
    begun = [parameter for linear in (block.query, block.key) for parameter in linear.parameters()]
    for parameter in begun:
        parameter.data = size * parameter.numpy()
    ops.sum(block(x) * lab.normal(1, n, C)).backward()
    return max(float(np.abs(asnumpy(parameter.grad)).max()) for parameter in begun)


def rises(lab: Lab, n: int) -> tuple[float, float]:
    """How much a block's outputs change over some way, and over 2^-30 of it.

    The way is cut in half again and again, and the half taken in which they change more.
    """
    block, x, way = new(lab, BigBird, n, block=1), lab.normal(1, n, C), lab.normal(1, n, C)

    def at(place: float) -> np.ndarray:
        y: np.ndarray = block(x + way * place).numpy()
        return y

    low, high, y_low, y_high = 0.0, 1.0, at(0.0), at(1.0)
    whole = float(np.abs(y_high - y_low).max())
    for _ in range(30):
        middle = (low + high) / 2
        y = at(middle)
        if np.abs(y - y_low).max() > np.abs(y_high - y).max():
            high, y_high = middle, y
        else:
            low, y_low = middle, y
    return whole, float(np.abs(y_high - y_low).max())


# What is true --------------------------------------------------------------------------------


def scores_without_meeting(lab: Lab, n: int) -> Finding:
    """Row t of a synthesizer's weights depends on x_t alone, its outputs depend on everything."""
    block, x, s = new(lab, Synthesizer, n), lab.normal(1, n, C), int(lab.rng.integers(n))
    others = np.arange(n) != s
    moved = block.weights(ops.where(asarray(others[:, None], device=lab.device), x, lab.normal(C)))
    weights, dense = block.weights(x), new(lab, MultiHead, n)

    def when_turned(kind: Any) -> float:
        w, turned = kind.weights(x).numpy(), kind.weights(x.flip(1)).numpy()
        return float(np.abs(turned - w[..., ::-1, ::-1]).max())

    return every(
        equal("other rows", moved.numpy()[:, :, others], weights.numpy()[:, :, others]),
        fact(influence(block, n, False).all(), "all outputs change", "some outputs do not change"),
        at_most("multi-head, the text turned round,", when_turned(dense), 0),
        at_least("synthesizer, the text turned round,", when_turned(block), 1e-9, 0),
    )


def work_of_attention(lab: Lab, n: int) -> Finding:
    """4nd² + 2n²d multiply-adds, counted."""
    block = new(lab, MultiHead, n)
    work = work_of(block, lab.normal(1, n, C))
    formula = formula_value(MultiHead.multiply_adds, {"T": n, "C": C})
    return every(
        equal("counted", work, 4 * n * C**2 + 2 * n**2 * C),
        equal("the block's formula", float(formula), work),
    )


def work_of_a_perceiver(lab: Lab, n: int, m: int, L: int) -> Finding:
    """4nmd + (L - 2)·2m²d multiply-adds beside the maps, counted."""
    work = 2 * perceiver_pairs(lab, n, m, L) * C
    ends = formula_value(Perceiver.multiply_adds, {"T": n, "L": m, "C": C})
    across = float(ends) - 4 * (n + m) * C**2
    between = (L - 2) * 2 * m**2 * C
    return every(
        equal("counted", work, 4 * n * m * C + between),
        equal("by the formula", across + between, work),
    )


def narrow_is_cheaper(lab: Lab, m: int, more: int, L: int) -> Finding:
    """At most the work of as many layers of plain attention; as much only if m = n."""
    n = m + more
    work, plain = 2 * perceiver_pairs(lab, n, m, L) * C, L * 2 * n**2 * C
    return every(
        work_of_a_perceiver(lab, n, m, L),
        fact((work < plain) if more else (work == plain),
             f"{work:,} of {plain:,}", f"{work:,} against {plain:,}"),
    )  # fmt: skip


def few_hops(lab: Lab, n: int, w: int) -> Finding:
    """A window alone: ⌈(n - 1)/w⌉ hops. With a global token 2 at most. Pairs grow with n."""
    alone, star, more = graph(n, w, 0), graph(n, w, 1), graph(n, w, 1, 2)
    options = {"block": 1, "window_blocks": 2 * w + 1, "random_blocks": 2}
    block = new(lab, BigBird, n, global_blocks=1, **options)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    past = np.tri(n, dtype=bool)
    return every(
        fact((alone == (apart <= w)).all(), "a band", "not a band"),
        equal("hops by windows", hops(alone).max(), math.ceil((n - 1) / w)),
        at_most("hops with a global token", hops(star).max(), 2),
        equal(
            "back to the first but one, if causal",
            hops(star & past)[-1, 1] if n > 2 else 1,
            max(1, math.ceil((n - 2) / w)),
        ),
        fact((influence(block, n, False) == more).all(), "as the pattern", "not as the pattern"),
        at_most("pairs", more.sum(), n * (2 * w + 1 + 2 + 2)),
    )


def near_is_not_learned(lab: Lab, n: int) -> Finding:
    """Outputs do not jump; from zero queries and keys no gradient leads away."""
    whole, rise = rises(lab, n)
    return every(
        at_least("outputs change by", whole, 1e-3),
        at_most("and by 2^-30 of the way by", rise, 2e-5),
        equal("gradient of queries and keys of 0", largest_gradient(lab, n, 0.0), 0.0, 0),
        at_least("of small ones", largest_gradient(lab, n, 0.1), LEADS_AWAY),
    )


# What the sheets say -------------------------------------------------------------------------


def only_itself(lab: Lab, n: int) -> Finding:
    """No token-to-token interaction: the first token changes no output but its own."""
    changed = influence(new(lab, Synthesizer, n), n, False)[:, 0].sum()
    return equal("outputs that change with the first token", changed, 1)


def work_without_maps(lab: Lab, n: int, d: int) -> Finding:
    """O(n²d + dn²), whose two terms are one."""
    work = work_of(lab.block(MultiHead, d, H, longest=n), lab.normal(1, n, d))
    return at_most("multiply-adds over n²d + dn²", work / (2 * n**2 * d), CONSTANT)


def length_is_free(lab: Lab, n: int, m: int, L: int) -> Finding:
    """O(dm + Lm²), in which n does not occur: twice the length costs no more."""
    once, twice = (perceiver_pairs(lab, k * n, m, L) for k in (1, 2))
    return equal("factor of work at twice the length", twice / once, 1)


def steps_can_be_learned(lab: Lab, n: int, height: float) -> Finding:
    """A step is met within 1 % of its height; outputs that rise by less miss half of the rest."""
    rise = rises(lab, n)[1]
    return at_most("somewhere a step is missed by", (height - rise) / 2, NEARLY * height)


# fmt: off
CLAIMS = [
    Claim(
        "S000-2.g.2", "272", CONDITIONAL,
        says="a synthesizer has no interaction of token with token",
        truth="its scores have none: row t of α depends on x_t only; its output is a mean of all "
        "values still; and unlike q·k its scores go by position, not by what stands there",
        under_test=(Synthesizer, influence),
        corrected=scores_without_meeting, domain={"n": Whole(2, 8)},
        literal=only_itself, witness={"n": 6},
    ),
    Claim(
        "S001-2.g.3", "195", CONDITIONAL,
        says="multi-head attention over n words takes O(n²d + dn²)",
        truth="so do its two products, 2n²d; with the four maps it takes 4nd² more multiply-adds, "
        "and O(n²d) only if n is not small beside d",
        under_test=(MultiHead, formula_value),
        corrected=work_of_attention, domain={"n": Whole(1, 40)},
        literal=work_without_maps, witness={"n": 32, "d": 1024},
    ),
    Claim(
        "S001-2.g.4", "199", TYPO,
        says="a Perceiver takes O(dm + Lm²), with m latents and L layers",
        truth="n m is meant, as the next line compares m with n, and as in Jaegle and others 2021: "
        "there are n inputs to be read, and as many outputs: 4nmd + (L - 2)·2m²d multiply-adds, "
        "and the maps",
        under_test=(Perceiver, formula_value),
        corrected=work_of_a_perceiver,
        domain={"n": Whole(1, 40), "m": Whole(1, 40), "L": Whole(2, 5)},
        literal=length_is_free, witness={"n": 1024, "m": 32, "L": 4},
    ),
    Claim(
        "S001-2.g.5", "201", TRUE,
        says="m ≪ n, which makes a Perceiver cheaper",
        truth="for all m ≤ n it does at most the work of L plain layers, as much only if m = n, "
        "maps not counted",
        under_test=(Perceiver, formula_value),
        corrected=narrow_is_cheaper,
        domain={"m": Whole(1, 30), "more": Whole(0, 30), "L": Whole(2, 5)},
    ),
    Claim(
        "S002-3.g.5", "21-25", TRUE,
        says="windows, random pairs, and global tokens that see all and are seen by all keep a "
        "sparse graph well connected",
        truth="a window of w on each side alone takes ⌈(n - 1)/w⌉ hops, a global token makes it 2 "
        "at most, and pairs grow as n; in a causal model no token sees all, and the first, which "
        "all see, has read nobody",
        under_test=(BigBird, hops, influence),
        corrected=few_hops, domain={"n": Whole(2, 24), "w": Whole(1, 4)},
    ),
    Claim(
        "S002-3.g.6", "27", FALSE,
        says="a universal approximator can learn any function, given enough data and parameters",
        truth="in the mean it comes near continuous functions on a bounded set, and near a step "
        "too, but at some place it misses the step by half its height; of learning the theorem "
        "says nothing: from queries and keys of zero no gradient leads away",
        under_test=(BigBird,),
        corrected=near_is_not_learned, domain={"n": Whole(2, 8)},
        literal=steps_can_be_learned, witness={"n": 6, "height": 1.0},
    ),
    Claim(
        "S002-3.g.7", "27", OPEN,
        says="BigBird is Turing-complete",
        truth="a published proof, for numbers of unbounded precision and texts of any length; a "
        "block of floats with a longest text is a finite machine",
    ),
]
