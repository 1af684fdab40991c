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
from tinyattn.theory.lab import Lab, Whole

C, H = 4, 2
D = C // H
CONSTANT = 10
"""The largest constant factor that O(..) may hide here."""
LEADS_AWAY = 1e-9
"""A larger gradient is no rounding error."""


def new(lab: Lab, block_class: Any, n: int, **options: int) -> Any:
    """A block for n positions, with large random parameters."""
    return lab.block(block_class, C, H, max_length=n, **options)


def work_of(block: MultiHead, x: Tensor) -> int:
    """Multiply-adds: the four matrices for each position; a key and a value for each weight."""
    maps = (block.query, block.key, block.value, block.out)
    mixing = [
        getattr(block, name).size for name in ("mix_keys", "mix_values") if hasattr(block, name)
    ]
    n, entries = x.shape[1], sum(linear.weight.size for linear in maps)
    pairs = np.count_nonzero(block.weights(x).numpy())
    return int(n * entries + sum(mixing) * C + 2 * pairs * D)


def perceiver_pairs(lab: Lab, n: int, m: int, L: int) -> int:
    """The number of (query, key) pairs in the layers of a Perceiver, counted from the weights."""
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
    return sum(weights.size for weights in kept)


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


def scores_without_meeting(lab: Lab, n: int) -> Finding:
    """Row t of a synthesizer's weights depends on x_t only; its outputs depend on all inputs."""
    block, x, s = new(lab, Synthesizer, n), lab.normal(1, n, C), int(lab.rng.integers(n))
    others = np.arange(n) != s
    moved = block.weights(ops.where(asarray(others[:, None], device=lab.device), x, lab.normal(C)))
    weights, dense = block.weights(x), new(lab, MultiHead, n)

    def when_reversed(of: Any) -> float:
        w, other = of.weights(x).numpy(), of.weights(x.flip(1)).numpy()
        return float(np.abs(other - w[..., ::-1, ::-1]).max())

    return every(
        equal("other rows of weights", moved.numpy()[:, :, others], weights.numpy()[:, :, others]),
        fact(influence(block, n, False).all(), "all outputs change", "some outputs do not change"),
        at_most("multi-head, sequence reversed: change", when_reversed(dense), 0),
        at_least("synthesizer, sequence reversed: change", when_reversed(block), 1e-9, 0),
    )


def work_of_attention(lab: Lab, n: int) -> Finding:
    """Multi-head attention needs 4nd² + 2n²d multiply-adds."""
    block = new(lab, MultiHead, n)
    work = work_of(block, lab.normal(1, n, C))
    formula = formula_value(MultiHead.multiply_adds, {"T": n, "C": C})
    return every(
        equal("multiply-adds counted", work, 4 * n * C**2 + 2 * n**2 * C),
        equal("multiply-adds by the block's formula", float(formula), work),
    )


def work_of_a_perceiver(lab: Lab, n: int, m: int, L: int) -> Finding:
    """A Perceiver needs 4nmd + (L - 2)·2m²d multiply-adds, without the linear maps."""
    work = 2 * perceiver_pairs(lab, n, m, L) * C
    ends = formula_value(Perceiver.multiply_adds, {"T": n, "L": m, "C": C})
    across = float(ends) - 4 * (n + m) * C**2
    between = (L - 2) * 2 * m**2 * C
    return every(
        equal("multiply-adds counted", work, 4 * n * m * C + between),
        equal("multiply-adds by the formula", across + between, work),
    )


def narrow_is_cheaper(lab: Lab, m: int, more: int, L: int) -> Finding:
    """A Perceiver needs at most the work of L dense layers, and the same only if m = n."""
    n = m + more
    work, plain = 2 * perceiver_pairs(lab, n, m, L) * C, L * 2 * n**2 * C
    return every(
        work_of_a_perceiver(lab, n, m, L),
        fact((work < plain) if more else (work == plain),
             f"{work:,} multiply-adds, dense {plain:,}", f"{work:,}, dense {plain:,}"),
    )  # fmt: skip


def few_hops(lab: Lab, n: int, w: int) -> Finding:
    """A window needs ⌈(n - 1)/w⌉ hops; with a global token at most 2. Pairs grow like n."""
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


def near_is_not_learned(lab: Lab, n: int) -> Finding:
    """Outputs are continuous; if query and key parameters are 0, so are their gradients."""
    whole, rise = rises(lab, n)
    return every(
        at_least("change of outputs along a line", whole, 1e-3),
        at_most("change along 2^-30 of it", rise, 2e-5),
        equal("gradient for parameters of 0", largest_gradient(lab, n, 0.0), 0.0, 0),
        at_least("gradient for small ones", largest_gradient(lab, n, 0.1), LEADS_AWAY),
    )


# What the sheets say -------------------------------------------------------------------------


def only_itself(lab: Lab, n: int) -> Finding:
    """No token-to-token interaction: the first token changes only its own output."""
    changed = influence(new(lab, Synthesizer, n), n, False)[:, 0].sum()
    return equal("number of outputs that depend on the first token", changed, 1)


def work_without_maps(lab: Lab, n: int, d: int) -> Finding:
    """O(n²d + dn²), whose two terms are the same."""
    work = work_of(lab.block(MultiHead, d, H, max_length=n), lab.normal(1, n, d))
    return at_most("multiply-adds over n²d + dn²", work / (2 * n**2 * d), CONSTANT)


def length_is_free(lab: Lab, n: int, m: int, L: int) -> Finding:
    """O(dm + Lm²) does not contain n: a sequence twice as long needs the same work."""
    once, twice = (perceiver_pairs(lab, k * n, m, L) for k in (1, 2))
    return equal("work at twice the length, relative:", twice / once, 1)


def steps_can_be_learned(lab: Lab, n: int, height: float) -> Finding:
    """A step function is approximated within 1 % of its height everywhere."""
    rise = rises(lab, n)[1]
    return at_most("largest error at a step", (height - rise) / 2, NEARLY * height)


# fmt: off
CLAIMS = [
    Claim(
        "S000-2.g.2", "272", CONDITIONAL,
        says="a synthesizer has no interaction between tokens",
        truth="true for its scores: row t of α depends on x_t only; but its output is an average "
        "of all values; unlike q·k, its scores depend on key positions, not on key tokens",
        under_test=(Synthesizer, influence),
        corrected=scores_without_meeting, domain={"n": Whole(2, 8)},
        literal=only_itself, witness={"n": 6},
    ),
    Claim(
        "S001-2.g.3", "195", CONDITIONAL,
        says="multi-head attention over n words needs O(n²d + dn²) operations",
        truth="true for its two matrix products, 2n²d; the four linear maps need 4nd² more "
        "multiply-adds, so the total is O(n²d) only if n is not small compared with d",
        under_test=(MultiHead, formula_value),
        corrected=work_of_attention, domain={"n": Whole(1, 40)},
        literal=work_without_maps, witness={"n": 32, "d": 1024},
    ),
    Claim(
        "S001-2.g.4", "199", TYPO,
        says="a Perceiver with m latents and L layers needs O(dm + Lm²) operations",
        truth="n m is meant, as the next line compares m with n, and as in Jaegle and others 2021: "
        "the latents attend to n inputs, and n outputs to the latents: 4nmd + (L - 2)·2m²d "
        "multiply-adds, and the linear maps",
        under_test=(Perceiver, formula_value),
        corrected=work_of_a_perceiver,
        domain={"n": Whole(1, 40), "m": Whole(1, 40), "L": Whole(2, 5)},
        literal=length_is_free, witness={"n": 1024, "m": 32, "L": 4},
    ),
    Claim(
        "S001-2.g.5", "201", TRUE,
        says="a Perceiver is cheaper, as m ≪ n",
        truth="this is right: for all m ≤ n it needs at most the work of L dense layers, and the "
        "same only if m = n (linear maps not counted)",
        under_test=(Perceiver, formula_value),
        corrected=narrow_is_cheaper,
        domain={"m": Whole(1, 30), "more": Whole(0, 30), "L": Whole(2, 5)},
    ),
    Claim(
        "S002-3.g.5", "21-25", TRUE,
        says="windows, random pairs, and global tokens (they attend to all, and all to them) make "
        "a sparse graph well connected",
        truth="this is right: a window of w on each side needs ⌈(n - 1)/w⌉ hops, with a global "
        "token at most 2, and pairs grow like n; in a causal model no token attends to all, and "
        "the first, to which all attend, attends only to itself",
        under_test=(BigBird, hops, influence),
        corrected=few_hops, domain={"n": Whole(2, 24), "w": Whole(1, 4)},
    ),
    Claim(
        "S002-3.g.6", "27", FALSE,
        says="a universal approximator can learn any function, given enough data and parameters",
        truth="it approximates continuous functions on a bounded set in the mean, also steps, but "
        "the largest error at a step is half its height; the theorem does not cover learning: if "
        "query and key parameters are 0, their gradients are 0",
        under_test=(BigBird,),
        corrected=near_is_not_learned, domain={"n": Whole(2, 8)},
        literal=steps_can_be_learned, witness={"n": 6, "height": 1.0},
    ),
    Claim(
        "S002-3.g.7", "27", OPEN,
        says="BigBird is Turing-complete",
        truth="a published proof shows it for numbers of unbounded precision and sequences of any "
        "length; a block with float32 or float64 and a max_length is a finite machine",
    ),
]
