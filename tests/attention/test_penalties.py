"""The two penalties on attention weights, by hand and at their limits."""

import math
from typing import Any

import numpy as np
import pytest
from blocks import CLOSE, C, build, names, numbers, put
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck, ops
from tinyattn.attention import Penalty, focus, head_statistics, near, padding
from tinyattn.backend import asarray, asnumpy

B, H, T, S = 3, 2, 5, 7


def weights(*shape: int, seed: int = 0, sharp: float = 2.0) -> np.ndarray:
    e = np.exp(sharp * numbers(*shape, seed=seed))
    return e / e.sum(axis=-1, keepdims=True)


def entropy(row: Any) -> float:
    """In nats, term by term."""
    return -sum(a * math.log(a) for a in row if a > 0)


def distance(row: Any, t: int, cap: float) -> float:
    return min(cap, sum(a * (t - s) ** 2 for s, a in enumerate(row)))


def test_both_are_their_formulas(device: str) -> None:
    a, square = weights(B, H, T, S), weights(B, H, T, T)
    square[0, 0] = np.eye(T)  # attends to itself, with other weights of exactly 0
    expected = [[[entropy(row) for row in head] for head in text] for text in a]
    assert_allclose(focus(Tensor(a, device=device)).numpy(), expected, **CLOSE)
    for cap in (0.5, 3.0, 1e9):
        expected = [[[distance(row, t, cap) for t, row in enumerate(head)] for head in text]
                    for text in square]  # fmt: skip
        assert_allclose(near(Tensor(square, device=device), cap).numpy(), expected, **CLOSE)


@given(S=st.integers(1, 9), seed=st.integers(0, 99), sharp=st.floats(0, 50))
def test_entropy_lies_between_one_key_and_uniform_weights(
    S: int, seed: int, sharp: float, device: str
) -> None:
    values = focus(put(weights(2, 1, 3, S, seed=seed, sharp=sharp), device)).numpy()
    assert (values >= -1e-12).all() and (values <= math.log(S) + 1e-12).all()
    even = focus(put(np.full((1, 1, 1, S), 1 / S), device)).numpy()
    assert_allclose(even, math.log(S), **CLOSE)
    assert_array_equal(focus(put(np.eye(S)[None, None], device)).numpy(), 0)


@given(T=st.integers(1, 9), seed=st.integers(0, 99), cap=st.floats(0.1, 100))
def test_distance_lies_between_zero_and_the_cap(T: int, seed: int, cap: float, device: str) -> None:
    values = near(put(weights(2, 1, T, T, seed=seed), device), cap).numpy()
    farthest = np.maximum(np.arange(T), np.arange(T)[::-1]) ** 2
    assert (values >= 0).all() and (values <= np.minimum(cap, farthest) + 1e-12).all()
    assert_array_equal(near(put(np.eye(T)[None, None], device), cap).numpy(), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_zero_are_allowed(dtype: str, device: str) -> None:
    """0 ln 0 = 0, and its gradient is finite, also for a query without allowed keys."""
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]])[None, None]
    for penalty in (focus, lambda w: near(w, 4.0)):
        leaf = Tensor(rows, dtype=dtype, device=device, requires_grad=True)
        y = penalty(leaf)
        assert (str(y.dtype), y.device) == (dtype, device)
        assert np.isfinite(y.numpy()).all() and (y.numpy()[0, 0, :2] == 0).all()
        y.sum().backward()
        assert np.isfinite(asnumpy(leaf.grad)).all()
    scores = Tensor(np.array([[0.0, -1e4, 1.0], [1.0, 2.0, 3.0]]), dtype=dtype, device=device,
                    requires_grad=True)  # fmt: skip
    allowed = asarray(np.array([[True, True, False], [False, False, False]]), device=device)
    focus(ops.softmax(scores, allowed)[None, None]).sum().backward()
    assert_allclose(asnumpy(scores.grad), 0, atol=1e-30)


def test_gradients_are_those_of_small_changes(device: str) -> None:
    a, scores = put(weights(B, H, T, T, sharp=0.5), device), put(numbers(B, H, T, T), device)
    past = put(np.tri(T, dtype=bool), device)
    assert gradcheck(focus, a)
    assert gradcheck(lambda a: near(a, 5.0), a)
    assert gradcheck(lambda s: focus(ops.softmax(s, past)), scores)
    counts = put(padding([5, 2, 0], T), device)[:, 0, 0]
    penalty = Penalty(focus=0.3, near=0.2, cap=5.0)
    assert gradcheck(lambda a, b: penalty([a, b], counts, 7), a, a[::-1])


def test_beyond_the_cap_the_gradient_is_zero(device: str) -> None:
    looks = np.eye(T)[::-1][None, None]  # t attends to T - 1 - t
    leaf = Tensor(looks, requires_grad=True, device=device)
    near(leaf, 5.0).sum().backward()
    moved = asnumpy(leaf.grad)[0, 0].any(axis=1)
    assert_array_equal(moved, [False, True, True, True, False])


def by_hand(layers: list[Any], counts: np.ndarray, penalty: Penalty) -> float:
    """The mean over layers, heads and the queries that are not padding."""
    found = [
        penalty.focus * entropy(row) + penalty.near * distance(row, t, penalty.cap)
        for layer in layers
        for text, there in zip(layer, counts, strict=True)
        for head in text
        for t, row in enumerate(head)
        if there[t]
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("given", [{"focus": 0.3}, {"near": 0.2}, {"focus": 0.3, "near": 0.2}])
def test_a_penalty_is_a_mean_over_layers_heads_and_queries_without_padding(
    given: dict[str, float], device: str
) -> None:
    layers = [weights(B, H, T, T, seed=seed) for seed in range(2)]
    counts, penalty = padding([5, 2, 0], T)[:, 0, 0], Penalty(**given, cap=5.0)
    tensors = [Tensor(layer, device=device) for layer in layers]
    got = penalty(tensors, asarray(counts, device=device), counts.sum())
    assert got.shape == ()
    assert got.item() == pytest.approx(by_hand(layers, counts, penalty), rel=1e-12)


def test_padding_may_have_any_values(device: str) -> None:
    """The mean ignores it, also if it is not finite."""
    layer = weights(B, H, T, T)
    counts = padding([5, 2, 0], T)[:, 0, 0]
    spoilt = np.where(counts[:, None, :, None], layer, np.nan)
    penalty, there = Penalty(focus=0.3, near=0.2, cap=5.0), asarray(counts, device=device)
    tensor = Tensor(spoilt, device=device, requires_grad=True)
    got = penalty([tensor], there, counts.sum())
    assert got.item() == pytest.approx(by_hand([layer], counts, penalty), rel=1e-12)
    found = head_statistics([tensor.detach()], there, 5.0, {})
    assert all(math.isfinite(value) for value in found.values())


def test_the_penalties_of_shards_sum_to_that_of_the_batch(device: str) -> None:
    """Each is divided by the number of queries of the whole batch."""
    layers = [weights(4, H, T, T, seed=seed) for seed in range(2)]
    counts = put(padding([5, 2, 0, 4], T), device)[:, 0, 0]
    penalty = Penalty(focus=0.3, near=0.2, cap=5.0)
    whole = penalty([put(a, device) for a in layers], counts, 11).item()
    parts = [
        penalty([put(a[i:j], device) for a in layers], counts[i:j], 11).item()
        for i, j in [(0, 1), (1, 2), (2, 4)]
    ]
    assert sum(parts) == pytest.approx(whole, rel=1e-12)
    assert parts[1] > 0


def test_float32_stays_float32(device: str) -> None:
    layer = Tensor(weights(B, H, T, T), dtype="float32", device=device, requires_grad=True)
    counts = asarray(np.ones((B, T), bool), device=device)
    loss = Penalty(focus=0.3, near=0.2)([layer], counts, B * T)
    loss.backward()
    assert loss.dtype == layer.grad.dtype == np.float32


def test_the_statistics_of_heads_have_the_same_units(device: str) -> None:
    layers, counts = [weights(B, H, T, T, seed=i) for i in range(2)], np.ones((B, T), bool)
    counts[1, 2:] = False
    tensors, there = [put(a, device) for a in layers], put(counts, device)
    found = head_statistics(tensors, there, 5.0, {})
    assert found.keys() == {"entropy", "distance"}
    focused, nearby = Penalty(focus=1.0), Penalty(near=1.0, cap=5.0)
    assert found["entropy"] == pytest.approx(by_hand(layers, counts, focused), rel=1e-12)
    assert found["distance"] == pytest.approx(by_hand(layers, counts, nearby), rel=1e-12)
    assert head_statistics(tensors, there, 5.0, {"near": ".."}).keys() == {"entropy"}
    nobody = put(np.zeros((B, T), bool), device)
    assert head_statistics(tensors, nobody, 5.0, {}) == {"entropy": 0.0, "distance": 0.0}


@pytest.mark.parametrize("name", names("causal", "near"))
def test_training_on_the_penalty_lowers_entropy_and_distance(name: str, device: str) -> None:
    """A few steps of gradient descent on the penalty alone."""
    block, x = build(name, device), put(numbers(2, T, C), device)
    counts = put(np.ones((2, T), bool), device)
    penalty = Penalty(focus=1.0, near=1.0)
    before = head_statistics([block.weights(x, causal=True)], counts, 64.0, {})
    for _ in range(20):
        block.zero_grad()
        penalty([block.weights(x, causal=True)], counts, 2 * T).backward()
        for parameter in block.parameters():
            if parameter.grad is not None:
                parameter.data = parameter.data - 0.1 * parameter.grad
    after = head_statistics([block.weights(x, causal=True)], counts, 64.0, {})
    assert after["entropy"] < before["entropy"] and after["distance"] < before["distance"]


def test_what_is_out_of_range_raises_an_error() -> None:
    for name, value in (("focus", -0.1), ("near", -1.0), ("focus", float("nan"))):
        with pytest.raises(ValueError, match=f"^{name} must be at least 0 and finite; got"):
            Penalty(**{name: value})
    for cap in (0.0, -1.0, float("nan"), 1e-60):
        with pytest.raises(ValueError, match=r"^cap must be above 0(, also in float32)?; got"):
            Penalty(near=1.0, cap=cap)
    assert not Penalty() and Penalty(focus=0.1) and Penalty(near=0.1)
    with pytest.raises(ValueError, match=r"as many keys as queries; got weights \(3, 2, 5, 7\)"):
        near(Tensor(weights(B, H, T, S)), 1.0)
    Penalty(focus=1.0).check("a block", {"near": "it stands nowhere"})
    with pytest.raises(ValueError, match="attend to near positions: it stands nowhere"):
        Penalty(near=1.0).check("a block", {"near": "it stands nowhere"})
