"""Inputs for the tests of properties, and attention in plain NumPy for the expected results."""

import math

import numpy as np
from hypothesis import strategies as st

from tinyattn import Tensor

seeds = st.integers(0, 2**32 - 1)


def scores_of(least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    """A list of scores between -50 and 50; some are equal."""
    one = st.floats(-50, 50) | st.sampled_from([0.0, 1.0])
    return st.lists(one, min_size=least, max_size=most).map(np.array)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t)) if t > 0 else math.exp(t) / (1 + math.exp(t))


def orthonormal(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Orthonormal rows: n vectors of this width; n is at most the width."""
    assert n <= width
    return np.linalg.qr(rng.standard_normal((width, n)))[0].T


class Setting:
    """n orthonormal keys in a space of width n or more, random values, and two keys a and b."""

    def __init__(self, n: int, extra: int, seed: int) -> None:
        self.n, self.rng = n, np.random.default_rng(seed)
        self.k = orthonormal(self.rng, n, n + extra)
        self.v = self.rng.standard_normal((n, 3))
        self.a, self.b = (int(i) for i in self.rng.permutation(n)[:2]) if n > 1 else (0, 0)
        self.others = [i for i in range(n) if i not in (self.a, self.b)]
        self.keys, self.values = Tensor(self.k), Tensor(self.v)

    def __repr__(self) -> str:
        return f"{self.n} keys, a = {self.a}, b = {self.b}"

    @property
    def middle(self) -> np.ndarray:
        """The mean of the values of keys a and b."""
        return (self.v[self.a] + self.v[self.b]) / 2

    @property
    def rest(self) -> np.ndarray:
        """The mean of all other values; zeros if there are none."""
        return self.v[self.others].mean(axis=0) if self.others else np.zeros(3)


def settings_of(least: int, most: int) -> st.SearchStrategy[Setting]:
    """Settings with the given numbers of keys."""
    return st.builds(Setting, st.integers(least, most), st.integers(0, 3), seeds)
