"""Chapter 7: question 2 (g), the answer sheets on other attention types, checked on the blocks."""

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
from tinyattn.nn import Hooks, weight_hooks
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, FALSE, OPEN, TRUE, TYPO, Claim
from tinyattn.theory.cost import formula_value
from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, OneOf, Whole
from tinyattn.theory.law import check

C, H = 4, 2
D = C // H
WIDTHS = OneOf((2, 4, 6))
"""Some widths d of a block with H heads."""
CONSTANT = 10
"""The largest constant factor that O(..) may hide here."""
LEADS_AWAY = 1e-9
"""A larger gradient is no rounding error."""


def new(lab: Lab, block_class: Any, n: int, d: int = C, **options: int) -> Any:
    """A block of width d for n positions, with large random parameters."""
    return lab.block(block_class, d, H, max_length=n, **options)


def work_of(block: MultiHead, x: Tensor) -> int:
    """Multiply-adds: the four matrices for each position; a key and a value for each weight."""
    maps = (block.query, block.key, block.value, block.out)
    mixing = [
        getattr(block, name).size for name in ("mix_keys", "mix_values") if hasattr(block, name)
    ]
    (_, n, d), entries = x.shape, sum(linear.weight.size for linear in maps)
    pairs = np.count_nonzero(block.weights(x).numpy())
    return int(n * entries + sum(mixing) * d + 2 * pairs * (d // H))


def work_of_perceiver(lab: Lab, n: int, m: int, L: int) -> int:
    """Multiply-adds of a Perceiver without the linear maps: a key and a value for each weight."""
    model: Any = Perceiver(C, rng=lab.rng, latents=m).to(lab.device)
    stack = [
        Layer(MultiHead(C, 1, max_length=n, rng=lab.rng), rng=lab.rng, exact_gelu=True, dropout=0)
        for _ in range(L)
    ]
    for layer in stack:
        layer.to(lab.device)
    kept: list[Tensor] = []
    x = Tensor(np.zeros((1, n, C), np.float32), device=lab.device)
    model(x, stack, hooks=Hooks(weight_hooks(L, kept)))
    return int(2 * C * sum(weights.size for weights in kept))


def graph(n: int, window: int, first: int, random: int = 0) -> np.ndarray:
    """The boolean mask (n, n) of BigBird's pattern with blocks of one position, not causal."""
    lists = pattern(n, 2 * window + 1, first, random, 0, False)
    mask: np.ndarray = (lists[:, :, None] == np.arange(n)).any(axis=1)
    mask[:first] = True
    return mask


def largest_gradient(lab: Lab, n: int, size: float) -> float:
    """The largest gradient of the query and key parameters, after scaling them by `size`."""
    block, x = new(lab, BigBird, n, block=1), lab.normal(1, n, C)
    scaled = [parameter for linear in (block.query, block.key) for parameter in linear.parameters()]
    for parameter in scaled:
        parameter.data = size * parameter.numpy()
    ops.sum(block(x) * lab.normal(1, n, C)).backward()
    return max(float(np.abs(asnumpy(parameter.grad)).max()) for parameter in scaled)


def rises(lab: Lab, n: int) -> tuple[float, float]:
    """The change of a block's outputs along a line segment, and along 2^-30 of it.

    Bisection: of the two halves, the one in which the outputs change more is taken each time.
    """
    block, x, line = new(lab, BigBird, n, block=1), lab.normal(1, n, C), lab.normal(1, n, C)

    def at(place: float) -> np.ndarray:
        y: np.ndarray = block(x + line * place).numpy()
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


@check(Synthesizer, influence, n=Whole(2, 8))
def scores_without_meeting(lab: Lab, n: int) -> Finding:
    """Row t of a synthesizer's weights depends on x_t only, but each output on all inputs.

    An output is an average of all values. Unlike q·k, the scores depend on the positions of keys,
    not on their tokens.
    """
    block, x, s = new(lab, Synthesizer, n), lab.normal(1, n, C), int(lab.rng.integers(n))
    others = np.arange(n) != s
    moved = block.weights(ops.where(asarray(others[:, None], device=lab.device), x, lab.normal(C)))
    weights, dense = block.weights(x), new(lab, MultiHead, n)

    def when_reversed(of: Any) -> float:
        w, other = of.weights(x).numpy(), of.weights(x.flip(1)).numpy()
        return float(np.abs(other - w[..., ::-1, ::-1]).max())

    return every(
        equal("other rows of weights", moved.numpy()[:, :, others], weights.numpy()[:, :, others]),
        equal("outputs that each token changes", influence(block, n, False).sum(axis=0), [n] * n),
        at_most("multi-head, sequence reversed: change", when_reversed(dense), 0),
        at_least("synthesizer, sequence reversed: change", when_reversed(block), 1e-9, 0),
    )


@check(MultiHead, formula_value, n=Whole(1, 40), d=WIDTHS)
def work_of_attention(lab: Lab, n: int, d: int) -> Finding:
    """Multi-head attention needs 2n²d multiply-adds for its two matrix products.

    It needs 4nd² more for its four linear maps. The total is 1 + 2d/n times 2n²d, so it is O(n²d)
    only if n is not small compared with d.
    """
    work = work_of(new(lab, MultiHead, n, d), lab.normal(1, n, d))
    formula = formula_value(MultiHead.multiply_adds, {"T": n, "C": d})
    return every(
        equal("multiply-adds", work, 4 * n * d**2 + 2 * n**2 * d),
        equal("by the block's formula", float(formula), work),
        equal("multiply-adds over n²d + dn²", work / (2 * n**2 * d), 1 + 2 * d / n),
    )


@check(Perceiver, formula_value, n=Whole(1, 40), m=Whole(1, 40), L=Whole(2, 5))
def work_of_a_perceiver(lab: Lab, n: int, m: int, L: int) -> Finding:
    """A Perceiver needs 4nmd + (L - 2)·2m²d multiply-adds, without the linear maps.

    If and only if m < n, these are fewer than in L dense layers, L·2n²d; for m = n they are equal.
    """
    work, dense = work_of_perceiver(lab, n, m, L), L * 2 * n**2 * C
    ends = formula_value(Perceiver.multiply_adds, {"T": n, "L": m, "C": C})
    across = float(ends) - 4 * (n + m) * C**2
    between = (L - 2) * 2 * m**2 * C
    return every(
        equal("multiply-adds", work, 4 * n * m * C + between),
        equal("by its formula", across + between, work),
        fact((work < dense) == (m < n), f"{dense:,} of L dense layers, less iff m < n",
             f"{dense:,} of L dense layers, not: less iff m < n"),
        equal("for m = n", work_of_perceiver(lab, n, n, L), dense),
    )  # fmt: skip


@check(BigBird, hops, influence, n=Whole(2, 24), w=Whole(1, 4))
def few_hops(lab: Lab, n: int, w: int) -> Finding:
    """A window of w on each side needs ⌈(n - 1)/w⌉ hops, with a global token at most 2.

    Pairs grow like n. In a causal model no token attends to all, and the first, to which all
    attend, attends only to itself.
    """
    alone, star, more = graph(n, w, 0), graph(n, w, 1), graph(n, w, 1, 2)
    options = {"block": 1, "window_blocks": 2 * w + 1, "random_blocks": 2}
    block = new(lab, BigBird, n, global_blocks=1, **options)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    past = np.tri(n, dtype=bool)
    return every(
        fact((alone == (apart <= w)).all(), "windows are a band", "windows are no band"),
        equal("hops by windows", hops(alone).max(), math.ceil((n - 1) / w)),
        at_most("hops with a global token", hops(star).max(), 2),
        equal(
            "hops from the last to the second position, if causal",
            hops(star & past)[-1, 1] if n > 2 else 1,
            max(1, math.ceil((n - 2) / w)),
        ),
        fact((influence(block, n, False) == more).all(), "as in the pattern", "not as in it"),
        at_most("(query, key) pairs", more.sum(), n * (2 * w + 1 + 2 + 2)),
    )


@check(BigBird, n=Whole(2, 8))
def near_is_not_learned(lab: Lab, n: int) -> Finding:
    """Outputs are continuous, so the largest error at a step is half its height.

    If query and key parameters are 0, so are their gradients.
    """
    whole, rise = rises(lab, n)
    return every(
        at_least("change of outputs along a line", whole, 1e-3),
        at_most("change along 2^-30 of it", rise, 2e-5),
        equal("largest error at a step of height 1", (1 - rise) / 2, 0.5, 1e-5),
        equal("gradient for parameters of 0", largest_gradient(lab, n, 0.0), 0.0, 0),
        at_least("gradient for small ones", largest_gradient(lab, n, 0.1), LEADS_AWAY),
    )


# What the sheets say -------------------------------------------------------------------------


def length_is_free(lab: Lab, n: int, m: int, L: int) -> Finding:
    """O(dm + Lm²) does not contain n: a sequence twice as long needs the same work."""
    once, twice = (work_of_perceiver(lab, k * n, m, L) for k in (1, 2))
    return equal("work at twice the length, relative:", twice / once, 1)


# fmt: off
CLAIMS = [
    Claim(
        "S000-2.g.2", "272", CONDITIONAL,
        says="a synthesizer has no interaction between tokens",
        check=scores_without_meeting,
        literal=scores_without_meeting.gives("outputs that each token changes", lambda n: [1] * n),
        witness={"n": 6},
    ),
    Claim(
        "S001-2.g.3", "195", CONDITIONAL,
        says="multi-head attention over n words needs O(n²d + dn²) operations",
        check=work_of_attention,
        literal=work_of_attention.gives_at_most("multiply-adds over n²d + dn²", CONSTANT),
        witness={"n": 32, "d": 1024},
    ),
    Claim(
        "S001-2.g.4", "199", TYPO,
        says="a Perceiver with m latents and L layers needs O(dm + Lm²) operations",
        truth="n m is meant, as the next line compares m with n, and as in Jaegle and others 2021: "
        "the latents attend to n inputs, and n outputs to the latents: 4nmd + (L - 2)·2m²d "
        "multiply-adds, and the linear maps",
        check=work_of_a_perceiver,
        literal=length_is_free, witness={"n": 1024, "m": 32, "L": 4},
    ),
    Claim(
        "S001-2.g.5", "201", TRUE,
        says="a Perceiver is cheaper, as m ≪ n",
        check=work_of_a_perceiver,
    ),
    Claim(
        "S002-3.g.5", "21-25", TRUE,
        says="windows, random pairs, and global tokens (they attend to all, and all to them) make "
        "a sparse graph well connected",
        check=few_hops,
    ),
    Claim(
        "S002-3.g.6", "27", FALSE,
        says="a universal approximator can learn any function, given enough data and parameters",
        truth="it approximates continuous functions on a bounded set in the mean, also steps, but "
        "the largest error at a step is half its height; the theorem does not cover learning: if "
        "query and key parameters are 0, their gradients are 0",
        check=near_is_not_learned,
        literal=near_is_not_learned.gives_at_most("largest error at a step of height 1", NEARLY),
        witness={"n": 6},
    ),
    Claim(
        "S002-3.g.7", "27", OPEN,
        says="BigBird is Turing-complete",
        truth="a published proof shows it for numbers of unbounded precision and sequences of any "
        "length; a block with float32 or float64 and a max_length is a finite machine",
    ),
]
