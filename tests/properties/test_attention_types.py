"""Which properties of dense attention each attention type has, and which it does not have."""

import math

import numpy as np
import pytest
from blocks import C, H, build, can, numbers
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain import seeds

from tinyattn import Tensor
from tinyattn.attention import ATTENTION, factor, merge
from tinyattn.theory import (
    self_attention,
)

EXACT = {"rtol": 0, "atol": 1e-10}
D = C // H
BLIND = ["multihead", "bilinear"]  # do not depend on the order of positions
CAUSAL = [name for name in ATTENTION if can(name, "causal")]

# Order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLIND)
@given(T=st.integers(1, 7), seed=seeds)
def test_positions_have_no_order(name: str, T: int, seed: int) -> None:
    """Without a mask, permuted inputs give permuted outputs."""
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


# Without keys ------------------------------------------------------------------------------


@given(st.integers(2, 9), st.integers(0, 8), seeds)
def test_a_synthesizer_scores_by_the_position_alone(T: int, s: int, seed: int) -> None:
    """Row t of the weights depends on x_t only; the outputs still mix values."""
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


# One matrix instead of two ------------------------------------------------------------------


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
