"""Which properties of dense attention each attention type has, and which it does not have."""

import math

import numpy as np
import plain
import pytest
from blocks import C, H, build, can, numbers
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain import seeds

from tinyattn import Tensor
from tinyattn.attention import ATTENTION, MultiHead, hops
from tinyattn.measure import new_block
from tinyattn.theory import (
    formula_value,
    letters,
    orthonormal_singular_value,
    rank_for,
    self_attention,
    singular_values,
    truncated,
)

EXACT = {"rtol": 0, "atol": 1e-10}
BLIND = ["multihead", "bilinear"]  # do not depend on the order of positions
CAUSAL = [name for name in ATTENTION if can(name, "causal")]

# Order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLIND)
@given(T=st.integers(1, 7), seed=seeds)
def test_positions_have_no_order(name: str, T: int, seed: int) -> None:
    """P12: without a mask, permuted inputs give permuted outputs."""
    block, x = build(name), numbers(1, T, C, seed=seed)
    order = np.random.default_rng(seed).permutation(T)
    y, moved = (block(Tensor(a)).numpy() for a in (x, x[:, order]))
    assert_allclose(moved, y[:, order], **EXACT)
    before, after = (block.weights(Tensor(a)).numpy() for a in (x, x[:, order]))
    assert_allclose(after, before[..., order, :][..., order], **EXACT)
    c, moved_c = (self_attention(Tensor(a[0]))[0].numpy() for a in (x, x[:, order]))
    assert_allclose(moved_c, c[order], **EXACT)


@pytest.mark.parametrize("name", CAUSAL)
@given(T=st.integers(2, 12), t=st.integers(1, 11), seed=seeds)
def test_no_causal_block_depends_on_later_positions(name: str, T: int, t: int, seed: int) -> None:
    """Weights on them are exactly 0; each position has influence on itself."""
    t = min(t, T - 1)
    block, x = build(name), numbers(1, T, C, seed=seed)
    changed = x.copy()
    changed[:, t:] = numbers(T - t, C, seed=seed + 1)
    y, other = (block(Tensor(a), causal=True).numpy()[0] for a in (x, changed))
    assert_array_equal(other[:t], y[:t])
    assert (other[t:] != y[t:]).any(axis=-1).all()
    weights = block.weights(Tensor(x), causal=True).numpy()[0]
    assert not np.triu(weights[..., :T], 1).any()
    assert_array_equal(weights[:, 0], [np.eye(weights.shape[-1])[0]] * H)


@given(st.integers(2, 9), seeds)
def test_the_last_position_of_one_causal_layer_does_not_depend_on_the_order_before(
    T: int, seed: int
) -> None:
    block, x = build("multihead"), numbers(1, T, C, seed=seed)
    order = [*np.random.default_rng(seed).permutation(T - 1), T - 1]
    y, moved = (block(Tensor(a), causal=True).numpy() for a in (x, x[:, order]))
    assert_allclose(moved[:, -1], y[:, -1], **EXACT)


# Without keys ------------------------------------------------------------------------------


@given(st.integers(2, 9), st.integers(0, 8), seeds)
def test_a_synthesizer_scores_by_the_position_alone(T: int, s: int, seed: int) -> None:
    """P38: row t of the weights depends on x_t only; the outputs still mix values."""
    s = min(s, T - 1)
    x = numbers(1, T, C, seed=seed)
    changed = x.copy()
    changed[0, s] = 2 * numbers(C, seed=seed + 1)
    others = [t for t in range(T) if t != s]
    for name in ("synthesizer", "random-synthesizer"):
        block = build(name)
        before, after = (block.weights(Tensor(a)).numpy()[0] for a in (x, changed))
        assert_array_equal(after[:, others], before[:, others])
        constant = name == "random-synthesizer" or all(
            (block.hidden(Tensor(a)).numpy()[0, s] <= 0).all() for a in (x, changed)
        )  # without an active hidden unit, scores are only the bias
        assert (after[:, s] == before[:, s]).all() == constant
        y, moved = (block(Tensor(a)).numpy()[0] for a in (x, changed))
        assert (y != moved).any(axis=-1).all()
    dense = build("multihead")
    before, after = (dense.weights(Tensor(a)).numpy()[0] for a in (x, changed))
    assert (after != before).any(axis=(0, 2)).all()


# Rank --------------------------------------------------------------------------------------


@given(st.integers(1, 7), st.integers(1, 7), st.data(), seeds)
def test_the_nearest_matrix_of_lower_rank(T: int, S: int, data: st.DataObject, seed: int) -> None:
    """P39: its error is the next singular value; orthonormal tokens have n - 1 equal ones."""
    rng = np.random.default_rng(seed)
    weights = Tensor(plain.softmax(3 * rng.standard_normal((T, S))))
    sizes = singular_values(weights)
    squares = np.linalg.eigvalsh(weights.numpy() @ weights.numpy().T)[::-1]
    assert_allclose(sizes**2, squares[: len(sizes)], **EXACT)
    rank = data.draw(st.integers(0, min(T, S)), "rank")
    near = truncated(weights, rank).numpy()
    assert np.linalg.matrix_rank(near, tol=1e-9) <= rank
    left = np.append(sizes, 0)[rank]
    assert_allclose(np.linalg.norm(weights.numpy() - near, 2), left, **EXACT)
    other = rng.standard_normal((T, rank)) @ rng.standard_normal((rank, S)) / 5
    assert np.linalg.norm(weights.numpy() - other, 2) >= left - 1e-10
    beta, n = data.draw(st.floats(0, 30), "β"), T
    x = math.sqrt(beta) * plain.orthonormal(rng, n, n + 1)
    equal = singular_values(self_attention(Tensor(x))[1])
    expected = -math.expm1(-beta) / (1 + (n - 1) * math.exp(-beta))
    assert_allclose(equal, [1.0, *[expected] * (n - 1)], rtol=0, atol=1e-9)
    assert_allclose(orthonormal_singular_value(n, beta), expected, rtol=1e-12)


@given(st.integers(1, 7), st.floats(0.01, 1), seeds)
def test_the_rank_that_a_share_of_all_squares_needs(T: int, share: float, seed: int) -> None:
    weights = plain.softmax(3 * np.random.default_rng(seed).standard_normal((T, T)))
    squares = np.linalg.svd(weights, compute_uv=False) ** 2
    rank = rank_for(Tensor(weights), share)
    assert 1 <= rank <= T
    assert squares[:rank].sum() >= share * squares.sum() * (1 - 1e-9)
    assert squares[: rank - 1].sum() < share * squares.sum()


# Few keys ----------------------------------------------------------------------------------


@given(st.integers(2, 24), st.integers(1, 4), seeds)
def test_one_global_position_makes_all_paths_short(n: int, w: int, seed: int) -> None:
    """P40: at most two hops; with a window alone there are ⌈(n - 1)/w⌉."""
    x, places = Tensor(numbers(1, n, C, seed=seed)), np.arange(n)
    apart = np.abs(places[:, None] - places)
    for first in (0, 1):
        block = build("bigbird", max_length=n, block=1, window_blocks=2 * w + 1,
                      global_blocks=first, random_blocks=0)  # fmt: skip
        seen = (block.weights(x).numpy()[0] > 0).all(axis=0)
        ends = first * ((places == 0)[:, None] | (places == 0)) > 0
        assert_array_equal(seen, (apart <= w) | ends)
        distance = hops(seen)
        if first:
            assert_array_equal(distance, np.where(apart == 0, 0, np.where(seen, 1, 2)))
        else:
            assert_array_equal(distance, np.ceil(apart / w))
            assert distance.max() == math.ceil((n - 1) / w)


@given(st.integers(1, 9), seeds)
def test_linformer_is_dense_if_it_only_permutes(T: int, seed: int) -> None:
    """P42: with a permutation as both projections, R = T; outputs are linear in that of values."""
    block, dense = build("linformer", max_length=T, rows=T), build("multihead")
    for name in ("query", "key", "value", "out"):
        setattr(dense, name, getattr(block, name))
    order = np.random.default_rng(seed).permutation(T)
    for parameter in (block.mix_keys, block.mix_values):
        parameter.data = np.eye(T)[order]
    x = Tensor(numbers(2, T, C, seed=seed))
    assert_allclose(block(x).numpy(), dense(x).numpy(), **EXACT)
    assert_allclose(block.weights(x).numpy(), dense.weights(x).numpy()[..., order], **EXACT)
    block.mix_values.data = 2 * np.eye(T)[order]
    bias = dense.out.bias.numpy()
    assert_allclose(block(x).numpy() - bias, 2 * (dense(x).numpy() - bias), **EXACT)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 6), st.sampled_from([4, 8, 12]))
def test_a_perceiver_never_needs_more_multiply_adds_than_dense_layers(
    T: int, L: int, layers: int, C: int
) -> None:
    """P41: its layers down, between and up, and as many dense layers; equal only if L = T."""
    L = min(L, T)

    def cost(queries: int, keys: int) -> int:
        """Maps of queries and outputs, of keys and values; scores and sums of values."""
        return 2 * queries * C * C + 2 * keys * C * C + 2 * queries * keys * C

    block = new_block(f"perceiver,latents={L}", C, 2, T)
    ends = formula_value(block.multiply_adds, letters(block, T, True))
    assert ends == cost(L, T) + cost(T, L)
    dense = formula_value(MultiHead.multiply_adds, {"T": T, "C": C})
    between = formula_value(MultiHead.multiply_adds, {"T": L, "C": C})
    assert (dense, between) == (cost(T, T), cost(L, L))
    whole = ends + (layers - 2) * between
    assert whole <= layers * dense
    assert (whole == layers * dense) == (L == T)
