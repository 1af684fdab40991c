"""Inputs for the tests of properties, and a softmax in plain NumPy for the expected results."""

import numpy as np
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)


def scores_of(least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    """A list of scores between -50 and 50; some are equal."""
    one = st.floats(-50, 50) | st.sampled_from([0.0, 1.0])
    return st.lists(one, min_size=least, max_size=most).map(np.array)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
