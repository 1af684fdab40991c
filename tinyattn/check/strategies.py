"""Wing, check: Hypothesis strategies for scores, masks, and queries, keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyattn.theory.lab import OneOf, Real, Reals, Values, Whole, Wholes


def of_values(values: Values) -> st.SearchStrategy[Any]:
    """What an argument of a check may have, such as Whole(1, 9), as a strategy."""
    match values:
        case Whole(low, high):
            return st.integers(low, high)
        case Real(low, high):
            return st.floats(low, high)
        case Reals(low, high, least, most):
            return st.lists(st.floats(low, high), min_size=least, max_size=most).map(tuple)
        case Wholes(low, high, least, most):
            return st.lists(st.integers(low, high), min_size=least, max_size=most).map(tuple)
        case OneOf(choices):
            return st.sampled_from(choices)


def numbers(largest: float) -> st.SearchStrategy[float]:
    """Numbers up to ±largest with few digits, some of them equal."""
    return st.sampled_from([0.0, 1.0]) | st.floats(-largest, largest).map(lambda x: round(x, 3))


def scores(most: int = 12, largest: float = 50.0) -> st.SearchStrategy[np.ndarray]:
    """The scores of one query. Shapes: (n,), n from 1 to `most`."""
    return hnp.arrays(np.float64, st.integers(1, most), elements=numbers(largest))


def masks(*shape: int, least: int = 1) -> st.SearchStrategy[np.ndarray]:
    """Attention masks, True = may attend; each query may attend to `least` keys or more.

    Shapes: (.., T, S), with 0 ≤ least ≤ S
    """

    def complete(mask: np.ndarray) -> np.ndarray:
        missing = np.maximum(least - mask.sum(axis=-1, keepdims=True), 0)
        whole: np.ndarray = mask | (~mask & ((~mask).cumsum(axis=-1) <= missing))
        return whole

    return hnp.arrays(bool, shape).map(complete)


@st.composite
def qkv(
    draw: st.DrawFn, lead: tuple[int, ...] = (), longest: int = 4, largest: float = 3.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values. Shapes: (.., T, D), (.., S, D), (.., S, E), each 1 to `longest`"""
    T, S, D, E = (draw(st.integers(1, longest), label=name) for name in "TSDE")
    shapes = (*lead, T, D), (*lead, S, D), (*lead, S, E)
    q, k, v = (draw(hnp.arrays(np.float64, s, elements=numbers(largest))) for s in shapes)
    return q, k, v
