"""Basic properties of softmax and attention, for all values."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, formulas, ops
from tinyattn.attention import causal
from tinyattn.attention.core import attend
from tinyattn.rng import DropoutRNG

Draw = tuple[np.ndarray, np.ndarray]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(scope="module", autouse=True, params=["kernels", "formulas"])
def _formula_and_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    with formulas() if request.param == "formulas" else nullcontext():
        yield


@st.composite
def scores_and_masks(draw: st.DrawFn) -> Draw:
    """Scores between -10⁴ and 10⁴, and a mask; some rows may have no allowed score."""
    few = hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)
    shape = draw(few | st.tuples(st.integers(1, 40)))
    scores = draw(hnp.arrays(float, shape, elements=st.floats(-1e4, 1e4)))
    return scores, draw(hnp.arrays(bool, shape))


@given(scores_and_masks())
def test_softmax_rows_are_weights(case: Draw) -> None:
    """P01: finite, never negative, and their sum is 1; 0 if nothing is allowed."""
    x, allowed = case
    p, masked = ops.softmax(x).numpy(), ops.softmax(x, allowed).numpy()
    for weights, total in ((p, 1), (masked, allowed.any(axis=-1))):
        assert np.isfinite(weights).all() and (weights >= 0).all()
        assert_allclose(weights.sum(axis=-1), total, rtol=0, atol=1e-14 * x.shape[-1])
    assert not masked[~allowed].any()


@given(scores_and_masks(), st.floats(-100, 100))
def test_softmax_depends_on_differences_only(case: Draw, shift: float) -> None:
    """P02: softmax(s + c) = softmax(s), and so the gradients of a row sum to 0."""
    x, allowed = case
    moved, p = (ops.softmax(a, allowed).numpy() for a in (x + shift, x))
    assert_allclose(moved, p, rtol=1e-9, atol=1e-12)
    leaf = Tensor(x, requires_grad=True)
    ops.softmax(leaf, allowed).backward(np.random.default_rng(0).standard_normal(x.shape))
    assert_allclose(leaf.grad.sum(axis=-1), 0, atol=1e-12)


@given(scores_and_masks(), st.randoms(use_true_random=False))
def test_softmax_commutes_with_permutations(case: Draw, random: Any) -> None:
    """P03: permuted scores have permuted weights."""
    x, allowed = case
    order = random.sample(range(x.shape[-1]), x.shape[-1])
    moved = ops.softmax(x[..., order], allowed[..., order]).numpy()
    assert_allclose(moved, ops.softmax(x, allowed).numpy()[..., order], **CLOSE)


@given(scores_and_masks())
def test_log_softmax_is_the_logarithm_and_logsumexp_the_rest(case: Draw) -> None:
    x = case[0] / 100  # where the softmax itself does not round to 0
    y = ops.log_softmax(x).numpy()
    assert_allclose(y, np.log(ops.softmax(x).numpy()), **CLOSE)
    assert_allclose(x - y, np.broadcast_to(ops.logsumexp(x, -1, True).numpy(), x.shape), **CLOSE)


# Attention ---------------------------------------------------------------------------------


class Heads:
    """Random queries (..., T, D), keys (..., S, D), values (..., S, E) and attention masks."""

    def __init__(self, lead: tuple[int, ...], T: int, S: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.q, self.k = rng.standard_normal((*lead, T, 3)), rng.standard_normal((*lead, S, 3))
        self.v = rng.standard_normal((*lead, S, 2))
        self.allowed = rng.random((*lead, T, S)) < 0.6
        self.u = rng.standard_normal((*lead, T, 2))

    def run(self, **changes: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        """Value, and gradients of q, k and v."""
        arrays = [changes.get(name, getattr(self, name)) for name in "qkv"]
        leaves = [Tensor(a, requires_grad=True) for a in arrays]
        y = ops.attention(
            *leaves,
            changes.get("allowed", self.allowed),
            causal=changes.get("causal", False),
            dropout=changes.get("dropout", 0.0),
            dropout_rng=DropoutRNG(1),
        )
        y.backward(changes.get("u", self.u))
        return y.numpy(), [leaf.grad for leaf in leaves]


leads = st.sampled_from([(), (2,), (2, 3)])
heads = st.builds(Heads, leads, st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))


@given(heads)
def test_attention_is_softmax_between_two_products(case: Heads) -> None:
    """y = softmax(q kᵀ/√D) v: the one operation equals the separate operations."""
    scores = np.einsum("...td,...sd->...ts", case.q, case.k) / np.sqrt(3)
    weights = ops.softmax(scores, case.allowed).numpy()
    assert_allclose(case.run()[0], weights @ case.v, **CLOSE)


@given(heads)
def test_a_query_without_allowed_keys_gets_zeros_and_gradients_of_zero(case: Heads) -> None:
    lonely = case.allowed.copy()
    lonely[..., 0, :] = False
    y, (dq, dk, dv) = case.run(allowed=lonely)
    assert not y[..., 0, :].any()
    assert not dq[..., 0, :].any()
    others = case.u.copy()
    others[..., 0, :] = 0  # for any gradient of this query's output, keys and values get none
    _, (_, dk_others, dv_others) = case.run(allowed=lonely, u=others)
    assert_allclose(dk, dk_others, **CLOSE)
    assert_allclose(dv, dv_others, **CLOSE)


@given(heads, st.randoms(use_true_random=False))
def test_keys_have_no_order(case: Heads, random: Any) -> None:
    S = case.k.shape[-2]
    order = random.sample(range(S), S)
    y, (dq, dk, dv) = case.run()
    moved = {"k": case.k[..., order, :], "v": case.v[..., order, :]}
    y_moved, (dq_moved, dk_moved, dv_moved) = case.run(**moved, allowed=case.allowed[..., order])
    assert_allclose(y_moved, y, **CLOSE)
    assert_allclose(dq_moved, dq, **CLOSE)
    assert_allclose(dk_moved, dk[..., order, :], **CLOSE)
    assert_allclose(dv_moved, dv[..., order, :], **CLOSE)


@given(heads)
def test_a_query_of_zeros_gives_the_mean_of_the_allowed_values(case: Heads) -> None:
    y, _ = case.run(q=np.zeros_like(case.q))
    seen = case.allowed[..., None]
    count = np.maximum(seen.sum(axis=-2), 1)
    assert_allclose(y, (case.v[..., None, :, :] * seen).sum(axis=-2) / count, **CLOSE)


@given(heads)
def test_a_hidden_key_is_like_no_key(case: Heads) -> None:
    hidden = case.allowed.copy()
    hidden[..., -1] = False
    longer = {name: np.concatenate([getattr(case, name), getattr(case, name)[..., :1, :]], axis=-2)
              for name in "kv"}  # fmt: skip
    never = np.zeros((*case.allowed.shape[:-1], 1), bool)
    y, _ = case.run(**longer, allowed=np.concatenate([case.allowed, never], axis=-1))
    assert_allclose(y, case.run()[0], **CLOSE)


@given(heads, st.floats(0, 1e4))
def test_an_output_lies_between_the_values(case: Heads, longer: float) -> None:
    """P10: in each element, and along any other direction, however long the queries are."""
    q, at = case.q * longer, list(np.ndindex(case.q.shape[:-1]))
    y = case.run(q=q, allowed=None)[0]
    alone = np.array([attend(q[i], case.k[i[:-1]], case.v[i[:-1]])[0].numpy() for i in at])
    for found in (y, alone.reshape(y.shape)):
        for turn in (np.eye(2), np.random.default_rng(0).standard_normal((2, 9))):
            along, answer = case.v @ turn, found @ turn
            low, high = (f(along, axis=-2, keepdims=True) for f in (np.min, np.max))
            assert ((low - 1e-12 <= answer) & (answer <= high + 1e-12)).all()


@given(heads, st.integers(0, 4), st.booleans())
def test_later_positions_have_no_influence(case: Heads, start: int, by_mask: bool) -> None:
    """P13: no weight, no change of earlier outputs, and no gradient."""
    T = S = case.k.shape[-2]
    start = start % T
    q = np.resize(case.q, case.k.shape)
    weights = ops.softmax(q @ case.k.swapaxes(-1, -2), causal(T, S)).numpy()
    assert not np.triu(weights, 1).any()
    assert (weights[..., 0, 0] == 1).all()
    u = np.resize(case.u, case.v.shape)
    now = {"q": q, "allowed": causal(T, S) if by_mask else None, "causal": not by_mask, "u": u}
    later_k, later_v = case.k.copy(), case.v.copy()
    later_k[..., start:, :] *= -3
    later_v[..., start:, :] += 100
    before, after = case.run(**now)[0], case.run(**now, k=later_k, v=later_v)[0]
    assert_array_equal(after[..., :start, :], before[..., :start, :])
    assert not np.allclose(after[..., start:, :], before[..., start:, :])
    u[..., start:, :] = 0  # gradients of earlier queries only
    for gradient in case.run(**now)[1]:
        assert not gradient[..., start:, :].any()


@given(heads, st.sampled_from([0.1, 0.5]))
def test_dropout_drops_weights_and_scales_the_others_up(case: Heads, rate: float) -> None:
    identity = np.broadcast_to(np.eye(case.k.shape[-2]), (*case.k.shape[:-1], case.k.shape[-2]))
    u = np.zeros((*case.q.shape[:-1], identity.shape[-1]))
    whole, left = (case.run(v=identity, u=u, dropout=share)[0] for share in (0.0, rate))
    assert_allclose(left, np.where(left == 0, 0, whole / (1 - rate)), **CLOSE)


@given(heads, st.floats(0.1, 3))
def test_longer_queries_are_like_longer_keys(case: Heads, longer: float) -> None:
    """Scores are products, so their gradients correspond."""
    y, (dq, dk, dv) = case.run(q=case.q * longer)
    y_too, (dq_too, dk_too, dv_too) = case.run(k=case.k * longer)
    assert_allclose(y, y_too, **CLOSE)
    assert_allclose(dq * longer, dq_too, **CLOSE)
    assert_allclose(dk, dk_too * longer, **CLOSE)
    assert_allclose(dv, dv_too, **CLOSE)
    # The gradients along queries and along keys are equal.
    assert_allclose((dq_too * case.q).sum(), (dk_too * case.k * longer).sum(), atol=1e-12)


@given(heads, st.floats(-3, 3))
def test_what_is_added_to_all_keys_has_no_effect(case: Heads, shift: float) -> None:
    """All scores of a query change equally, so the gradients of the keys sum to 0."""
    y, (_, dk, _) = case.run()
    assert_allclose(case.run(k=case.k + shift)[0], y, **CLOSE)
    assert_allclose(dk.sum(axis=-2), 0, atol=1e-12)
