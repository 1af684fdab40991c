"""Wing, exercise: for each exercise a Hypothesis strategy for its arguments, by name.

The arrays are small and their numbers have few digits, so that a counterexample can be followed
with a pencil. Most numbers are up to ±3; some are so large that a careless exp overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyattn.check.strategies import numbers, qkv
from tinyattn.exercise.small_graph import SmallGraph
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor

Arguments = dict[str, Any]
SIZES = st.integers(1, 3)
LEAD = st.sampled_from([(), (1,), (2,), (2, 2)])
"""The axes before the last ones."""
LARGE = 1000.0
"""exp overflows above 710."""


def reals(*shape: int, largest: float = 3.0) -> st.SearchStrategy[Any]:
    """Arrays of float64 with numbers up to ±largest."""
    return hnp.arrays(np.float64, shape, elements=numbers(largest))


@st.composite
def sweep(draw: st.DrawFn) -> Arguments:
    """A chain of up to five nodes; the other input of each is any leaf or result before it."""
    count = draw(st.integers(0, 5))
    steps = tuple(
        (draw(st.sampled_from("+*")), last, draw(st.integers(0, last)))
        for last in range(1, count + 1)
    )
    values = st.integers(1, 3).map(float)
    return {"start": SmallGraph(steps, draw(values), draw(values)), "cotangent": draw(reals(1)),
            "keep": draw(st.booleans())}  # fmt: skip


@st.composite
def softmax(draw: st.DrawFn) -> Arguments:
    """Scores, some of them large; some of them masked."""
    shape = draw(hnp.array_shapes(max_dims=3, max_side=3))
    x = draw(reals(*shape, largest=draw(st.sampled_from((3.0, LARGE)))))
    allowed = draw(st.none() | hnp.arrays(bool, shape))
    return {"x": x, "allowed": allowed, "axis": draw(st.integers(-len(shape), len(shape) - 1))}


@st.composite
def dropout(draw: st.DrawFn) -> Arguments:
    """Dropout in training and at inference."""
    rng = st.integers(0, 9).map(DropoutRNG) | st.none()
    return {"x": draw(reals(*draw(LEAD), draw(SIZES))), "dropout_rng": draw(rng),
            "rate": draw(st.sampled_from((0.5, 0.2, 0.0)))}  # fmt: skip


@st.composite
def attention(draw: st.DrawFn) -> Arguments:
    """Queries, keys and values of no batch or of two sequences; masks and scales."""
    lead = draw(st.sampled_from(((), (2,))))
    q, k, v = draw(qkv(lead, longest=3))
    allowed = draw(st.none() | hnp.arrays(bool, (*lead, q.shape[-2], k.shape[-2])))
    return {"q": q, "k": k, "v": v, "allowed": allowed, "causal": draw(st.booleans()),
            "scale": draw(st.sampled_from((None, 0.5)))}  # fmt: skip


@st.composite
def linear(draw: st.DrawFn) -> Arguments:
    """Rows with any axes before the last one, with and without bias."""
    C, F = draw(SIZES), draw(SIZES)
    return {"x": draw(reals(*draw(LEAD), C)), "weight": draw(reals(C, F)),
            "bias": draw(st.none() | reals(F))}  # fmt: skip


@st.composite
def causal(draw: st.DrawFn) -> Arguments:
    """Fewer, more and as many keys as queries."""
    lengths = st.integers(0, 4)
    return {"queries": draw(lengths), "keys": draw(lengths),
            "align": draw(st.sampled_from(("end", "start")))}  # fmt: skip


@st.composite
def split_heads(draw: st.DrawFn) -> Arguments:
    """Different numbers, so that each can be found in the result."""
    B, T, heads, D = (draw(SIZES) for _ in range(4))
    x = np.arange(1.0, B * T * heads * D + 1).reshape(B, T, heads * D)
    return {"x_BTC": Tensor(x), "heads": heads}


@st.composite
def layer_norm(draw: st.DrawFn) -> Arguments:
    """Rows, some of which have the variance 0."""
    C = draw(SIZES)
    return {"x": draw(reals(*draw(LEAD), C)), "gain": draw(reals(C)), "bias": draw(reals(C)),
            "eps": draw(st.sampled_from((0.1, 1e-5)))}  # fmt: skip


@st.composite
def gelu(draw: st.DrawFn) -> Arguments:
    """Numbers up to ±50: from about 40 on, GELU is the number itself, or 0."""
    largest = draw(st.sampled_from((3.0, 50.0)))
    return {"x": draw(reals(*draw(LEAD), largest=largest)), "exact": draw(st.booleans())}


@st.composite
def embedding(draw: st.DrawFn) -> Arguments:
    """Ids, of which some occur twice."""
    V = draw(SIZES)
    ids = hnp.arrays(np.intp, draw(LEAD), elements=st.integers(0, V - 1))
    return {"weight": draw(reals(V, draw(SIZES))), "ids": draw(ids)}


@st.composite
def cross_entropy(draw: st.DrawFn) -> Arguments:
    """Logits, some of them large; targets, some of them ignored."""
    V, lead = draw(SIZES), draw(LEAD)
    largest = draw(st.sampled_from((3.0, LARGE)))
    targets = draw(hnp.arrays(np.intp, lead, elements=st.integers(0, V - 1)))
    return {"logits": draw(reals(*lead, V, largest=largest)), "targets": targets,
            "ignore": draw(st.none() | st.integers(0, V - 1)),
            "divisor": draw(st.sampled_from((None, 4.0)))}  # fmt: skip


def _step(draw: st.DrawFn, n: int) -> Arguments:
    """The arguments of every rule of an optimizer."""
    w, g, m = (draw(reals(n)) for _ in range(3))
    return {"w": w, "g": g, "m": m, "t": draw(SIZES), "lr": draw(st.sampled_from((1.0, 0.1))),
            "decay": draw(st.sampled_from((0.0, 0.1)))}  # fmt: skip


@st.composite
def sgd(draw: st.DrawFn) -> Arguments:
    """A parameter, its gradient and its moment."""
    return _step(draw, draw(SIZES)) | {"momentum": draw(st.sampled_from((0.0, 0.9)))}


@st.composite
def adamw(draw: st.DrawFn) -> Arguments:
    """A parameter, its gradient and its moments."""
    n, betas = draw(SIZES), st.sampled_from((0.5, 0.9))
    return _step(draw, n) | {"v": np.abs(draw(reals(n))), "beta1": draw(betas),
                             "beta2": draw(betas), "eps": 0.1}  # fmt: skip


@st.composite
def clip_gradients(draw: st.DrawFn) -> Arguments:
    """Up to three arrays whose common norm may be below or above the limit."""
    return {"gradients": draw(st.lists(SIZES.flatmap(reals), min_size=1, max_size=3)),
            "most": draw(st.sampled_from((1.0, 5.0)))}  # fmt: skip


@st.composite
def matmul(draw: st.DrawFn) -> Arguments:
    """Vectors, matrices, and batches of matrices."""
    M, K, N = (draw(SIZES) for _ in range(3))
    shapes: tuple[Any, ...] = (
        ((M, K), (K, N)), ((2, M, K), (2, K, N)), ((K,), (K,)), ((M, K), (K,)), ((K,), (K, N)),
    )  # fmt: skip
    a, b = draw(st.sampled_from(shapes))
    return {"a": draw(reals(*a)), "b": draw(reals(*b))}


@st.composite
def rotate(draw: st.DrawFn) -> Arguments:
    """Vectors, and a cosine and a sine for each pair: any numbers, as the formula allows."""
    T, pairs = draw(SIZES), draw(SIZES)
    return {"x": draw(reals(*draw(LEAD), T, 2 * pairs)), "cos": draw(reals(T, pairs)),
            "sin": draw(reals(T, pairs))}  # fmt: skip


INPUTS: dict[str, st.SearchStrategy[Arguments]] = {
    strategy.__name__: strategy()
    for strategy in (
        sweep, softmax, dropout, attention, linear, causal, split_heads, layer_norm, gelu,
        embedding, cross_entropy, sgd, adamw, clip_gradients, matmul, rotate,
    )
}  # fmt: skip
"""The arguments of each exercise, by its name."""
