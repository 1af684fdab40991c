"""A dependency tree as attention: the weights are those of the sheet, and give the tree again."""

import math
from typing import Any

import numpy as np
import pytest
from cases import in_float64
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn.theory import dependency_block, dependency_scores, read_arcs

HEADS = 4
Tree = tuple[list[int], list[int]]


@st.composite
def trees(draw: st.DrawFn, largest: int = 9) -> Tree:
    """Trees: the head (governor) of a word is a word drawn before; of the first, the root."""
    order = draw(st.permutations(range(1, draw(st.integers(1, largest)) + 1)))
    governors = [0] * len(order)
    for i, word in enumerate(order[1:], start=1):
        governors[word - 1] = order[draw(st.integers(0, i - 1))]
    relations = st.lists(st.integers(0, HEADS - 1), min_size=len(order), max_size=len(order))
    return governors, draw(relations)


def ideal(governors: list[int], relations: list[int]) -> np.ndarray:
    """The weights of the answer sheet, word by word: α(k, governor, dependent); others attend to 0.

    Shapes: -> (H, N, N).
    """
    N = len(governors) + 1
    weights = np.zeros((HEADS, N, N))
    for k in range(HEADS):
        for t in range(N):
            found = [i + 1 for i in range(N - 1) if (governors[i], relations[i]) == (t, k)]
            for s in found or [0]:
                weights[k, t, s] = 1 / len(found or [0])
    return weights


@given(trees(), st.floats(3, 30))
def test_weights_are_within_their_bound_and_give_the_tree_again(tree: Tree, beta: float) -> None:
    """exp(3) is more than the 10 positions there are at most."""
    governors, relations = tree
    beta = float(np.float32(beta))
    block, x = dependency_block(governors, relations, HEADS, sharpness=beta)
    weights = in_float64(block).weights(x.astype("float64")).numpy()[0]
    assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-12)
    bound = len(governors) * math.exp(-beta)
    # The block's matrices are rounded to float32, and so are the exponents of its weights.
    assert np.abs(weights - ideal(governors, relations)).max() <= bound * (1 + 1e-5) + 1e-15
    assert read_arcs(weights) == tree


@given(trees(largest=30))
def test_float32_gives_the_tree_again(tree: Tree) -> None:
    block, x = dependency_block(*tree, HEADS)
    weights = block.weights(x).numpy()[0]
    assert weights.dtype == np.float32
    assert_allclose(weights, ideal(*tree), rtol=0, atol=1e-6)
    assert read_arcs(weights) == tree


def test_the_sentence_of_the_sheet(device: str) -> None:
    """I prefer the morning flight through Denver."""
    names = ["root", "nsubj", "obj", "det", "compound", "nmod", "case"]
    governors = [2, 0, 5, 5, 2, 7, 5]
    of_words = ("nsubj", "root", "det", "compound", "obj", "case", "nmod")
    relations = [names.index(name) for name in of_words]
    block, x = dependency_block(governors, relations, len(names))
    block.to(device)
    weights = block.weights(x.to(device)).numpy()[0]
    prefer, flight = 2, 5
    assert_allclose(weights[names.index("obj"), prefer], np.eye(8)[flight], atol=1e-6)
    assert_allclose(weights[names.index("det"), prefer], np.eye(8)[0], atol=1e-6)
    assert read_arcs(weights) == (governors, relations)
    y = block(x.to(device)).numpy()  # it is an attention block like any other
    assert y.shape == (1, 8, 14) and np.isfinite(y).all()


def test_heads_with_too_small_scores_lose_the_tree() -> None:
    """Eight words depend on one by one relation, each with an eighth of the remaining weight."""
    tree = [0] + [1] * 8, [1] + [0] * 8
    block, x = dependency_block(*tree, HEADS, sharpness=0.0)
    assert read_arcs(block.weights(x).numpy()[0]) != tree


def test_scores_are_beta_along_arcs_and_at_the_root() -> None:
    scores = dependency_scores([2, 0], [1, 0], 2, 5.0)
    assert_array_equal(scores, [[[0, 0, 5], [5, 0, 0], [5, 0, 0]],
                                [[5, 0, 0], [5, 0, 0], [0, 5, 0]]])  # fmt: skip


@pytest.mark.parametrize(
    ("governors", "relations", "message"),
    [([0, 1], [0], "as many relations as words; got 1 and 2"), ([], [], "got 0 and 0"),
     ([0, 3], [0, 0], r"governors must lie in 0..2; got \[0, 3\]"),
     ([0, -1], [0, 0], "governors must lie in 0..2"),
     ([0], [4], r"relations must lie in 0..3; got \[4\]"), ([0], [-1], "relations must lie in")],
)  # fmt: skip
def test_invalid_trees_are_refused(governors: Any, relations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"dependency_scores: .*{message}"):
        dependency_block(governors, relations, HEADS)
