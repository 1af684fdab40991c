"""The size of scores, and one matrix instead of two."""

import math
from itertools import product

import numpy as np
import plain
from blocks import C, H, build, numbers
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import seeds

from tinyattn import Tensor
from tinyattn.attention import factor, merge
from tinyattn.theory import (
    coupled_moments,
    effective_parameters,
    enumerated_moments,
    head_weights,
    merged_matrix,
    merged_weights,
    score_scale,
    score_variance,
)

EXACT = {"rtol": 0, "atol": 1e-10}
D = C // H


def signed(mix: np.ndarray) -> np.ndarray:
    """mix·s for all signs s, as rows."""
    return np.array([mix @ s for s in product([-1.0, 1.0], repeat=mix.shape[1])])


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), seeds)
def test_scores_of_independent_vectors_have_the_variance_of_a_trace(
    width: int, m: int, n: int, seed: int
) -> None:
    """P34: Var(h·e) = tr(C_h C_e), over all signs; scaled by 1/√I, unit variances give 1."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((width, m)), rng.standard_normal((width, n))
    scores = signed(A) @ signed(B).T
    mean, variance = enumerated_moments(Tensor(A), Tensor(B))
    assert_allclose([mean, variance], [0, scores.var()], rtol=1e-9, atol=1e-9)
    assert_allclose(score_variance(A @ A.T, B @ B.T), scores.var(), rtol=1e-9)
    uncorrelated = Tensor(np.eye(width))
    _, unit = enumerated_moments(uncorrelated, uncorrelated)
    assert_allclose(unit * score_scale(width) ** 2, 1, rtol=1e-12)
    block = build("multihead")
    assert_allclose([block.scale, score_scale(D)], 1 / math.sqrt(D), rtol=1e-12)


@given(st.integers(1, 6), st.integers(1, 4), st.floats(-2, 2), seeds)
def test_scores_of_dependent_vectors_do_not_have_it(
    width: int, m: int, t: float, seed: int
) -> None:
    A = np.random.default_rng(seed).standard_normal((width, m))
    h = signed(A)
    found = coupled_moments(Tensor(A), lambda h: h * t + 1)
    scores = (h * (h * t + 1)).sum(axis=1)
    assert_allclose(found, [scores.mean(), scores.var()], **EXACT)


# One matrix instead of two ------------------------------------------------------------------


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), seeds)
def test_one_matrix_gives_the_same_weights_and_keeps_the_rank(
    heads: int, width: int, J: int, T: int, seed: int
) -> None:
    """P35: W̃ = W^Qᵀ W^K/√I has rank ≤ min(I, J), and is that of G W^Q and G^-T W^K too."""
    rng = np.random.default_rng(seed)
    w_q, w_k = (rng.standard_normal((heads, width, J)) for _ in "qk")
    x = rng.standard_normal((T, J))
    merged = merged_matrix(Tensor(w_q), Tensor(w_k))
    expected = np.stack([q.T @ k for q, k in zip(w_q, w_k, strict=True)]) / math.sqrt(width)
    assert_allclose(merged.numpy(), expected, **EXACT)
    scores = x @ expected @ x.T
    two = head_weights(Tensor(x), Tensor(w_q), Tensor(w_k)).numpy()
    one = merged_weights(Tensor(x), merged).numpy()
    assert_allclose(two, plain.softmax(scores), **EXACT)
    assert_allclose(one, two, **EXACT)
    ranks = np.linalg.matrix_rank(merged.numpy(), tol=1e-9)
    assert ranks.max() <= min(width, J)
    ranks = np.linalg.matrix_rank(x @ merged.numpy() @ x.T, tol=1e-9)
    assert ranks.max() <= min(width, J, T)
    G = rng.standard_normal((width, width))
    assume(np.linalg.cond(G) < 1e4)
    rotated = merged_matrix(Tensor(G @ w_q), Tensor(np.linalg.inv(G).T @ w_k)).numpy()
    assert_allclose(rotated, expected, rtol=0, atol=1e-8)


@given(st.integers(1, 4), st.integers(1, 5), seeds)
def test_it_has_fewer_directions_than_two_matrices_have_elements(
    width: int, J: int, seed: int
) -> None:
    """The rank of all changes dQᵀ K + Qᵀ dK."""
    q, k = np.random.default_rng(seed).standard_normal((2, width, J))
    units = np.eye(width * J).reshape(-1, width, J)
    changes = [(d.T @ k).ravel() for d in units] + [(q.T @ d).ravel() for d in units]
    assert effective_parameters(J, width) == np.linalg.matrix_rank(changes, tol=1e-9)


@given(st.integers(1, 7), st.booleans(), seeds)
def test_whole_blocks_can_be_merged_and_factored(T: int, causal: bool, seed: int) -> None:
    block, x = build("multihead"), Tensor(numbers(2, T, C, seed=seed))
    merged = merge(block)
    for made in (merged, factor(merged)):
        assert_allclose(made(x, causal=causal).numpy(), block(x, causal=causal).numpy(), **EXACT)
        ours, theirs = (b.weights(x, causal=causal).numpy() for b in (made, block))
        assert_allclose(ours, theirs, **EXACT)
    p = block.state()
    for h in range(H):
        mine = slice(h * D, (h + 1) * D)
        q, k = p["query.weight"][:, mine], p["key.weight"][:, mine]
        assert_allclose(merged.matrices()[h] * merged.scale, q @ k.T / math.sqrt(D), **EXACT)


@given(st.integers(2, 7), st.booleans(), st.floats(-5, 5), seeds)
def test_a_bias_of_keys_has_no_effect(T: int, causal: bool, size: float, seed: int) -> None:
    """P36: it adds the same to all scores of a query, so its gradient is 0; not that of queries."""
    block, x = build("multihead"), Tensor(numbers(1, T, C, seed=seed))
    before = block.weights(x, causal=causal).numpy()
    y = block(x, causal=causal)
    y.backward(numbers(1, T, C, seed=seed + 1))
    assert np.abs(block.key.bias.grad).max() < 1e-11
    assert np.abs(block.query.bias.grad).max() > 1e-6
    block.key.bias.data = size * numbers(C, seed=seed + 2)
    assert_allclose(block.weights(x, causal=causal).numpy(), before, rtol=0, atol=1e-11)
    assert_allclose(block(x, causal=causal).numpy(), y.numpy(), rtol=0, atol=1e-11)
    block.query.bias.data = 3 * numbers(C, seed=seed + 3)
    assert np.abs(block.weights(x, causal=causal).numpy() - before).max() > 1e-6
