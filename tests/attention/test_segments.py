"""Sequences cut into segments, and put together again."""

import numpy as np
import pytest
from blocks import CLOSE, numbers, put
from cases import attention
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import gradcheck
from tinyattn.attention import in_segments, joined, segment_attention, segment_weights


@given(T=st.integers(1, 13), K=st.integers(1, 6))
def test_segments_contain_every_position_once_and_zeros_behind_them(
    T: int, K: int, device: str
) -> None:
    x = numbers(2, 1, T, 3)
    cut = in_segments(put(x, device), K)
    M = -(-T // K)
    assert cut.shape == (2, 1, M, K, 3)
    for t in range(M * K):
        expected = x[:, :, t] if t < T else np.zeros((2, 1, 3))
        assert_array_equal(cut.numpy()[:, :, t // K, t % K], expected)
    assert_array_equal(joined(cut, T).numpy(), x)


def test_gradients_of_segments_are_those_of_the_positions(device: str) -> None:
    x = put(numbers(1, 2, 5, 3), device)
    assert gradcheck(lambda x: in_segments(x, 2), x)
    assert gradcheck(lambda x: joined(in_segments(x, 2) * 2.0, 5), x)


@given(T=st.integers(1, 11), K=st.integers(1, 5), R=st.integers(1, 3))
def test_a_query_attends_to_finished_segments_and_its_own_up_to_itself(
    T: int, K: int, R: int, device: str
) -> None:
    """Query by query, for any number of summaries per segment; then its weights, pair by pair."""
    q, k, v = (numbers(2, 1, T, 3, seed=i) for i in range(3))
    N = R * (T // K)
    summary_k, summary_v = numbers(2, 1, N, 3, seed=3), numbers(2, 1, N, 3, seed=4)
    tensors = [put(a, device) for a in (q, k, v, summary_k, summary_v)]
    y = segment_attention(*tensors, K=K, scale=0.7).numpy()
    q_, k_, _, summary_k_, _ = tensors
    weights = segment_weights(q_, k_, summary_k_, K=K, scale=0.7).numpy()
    assert weights.shape == (2, 1, T, T + N)
    for t in range(T):
        own, done = slice(t // K * K, t + 1), slice(0, R * (t // K))
        keys = np.concatenate([k[:, :, own], summary_k[:, :, done]], axis=2)
        values = np.concatenate([v[:, :, own], summary_v[:, :, done]], axis=2)
        expected = attention(np, q[:, :, t : t + 1], keys, values, scale=0.7)
        assert_allclose(y[:, :, t : t + 1], expected, **CLOSE)
        seen = [*range(own.start, own.stop), *range(T, T + done.stop)]
        assert_array_equal(np.flatnonzero(weights[0, 0, t]), seen)
        e = np.exp(0.7 * keys @ q[:, :, t, :, None])[..., 0]
        assert_allclose(weights[:, :, t, seen], e / e.sum(axis=-1, keepdims=True), **CLOSE)


@pytest.mark.parametrize(("T", "K"), [(3, 4), (4, 4), (7, 3)])
def test_gradients_of_attention_to_segments(T: int, K: int, device: str) -> None:
    sizes = enumerate([T, T, T, T // K, T // K])
    tensors = [put(numbers(1, 2, n, 2, seed=i), device) for i, n in sizes]
    assert gradcheck(lambda *a: segment_attention(*a, K=K, scale=0.7), *tensors)
