"""Keys projected along the positions: all of them, or in each earlier segment."""

from typing import Any

import numpy as np
import pytest
from blocks import CLOSE, C, build, influence, numbers, put, with_or_without_rotary
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn.attention import MultiHead


def dense(block: Any) -> MultiHead:
    """Multi-head attention with the same maps."""
    made = build("multihead", rotary=block.rotary is not None)
    for name in ("query", "key", "value", "out"):
        setattr(made, name, getattr(block, name))
    return made


def without_mixing(block: Any) -> Any:
    """E = F = I."""
    for parameter in (block.mix_keys, block.mix_values):
        parameter.data = np.eye(*parameter.shape)
    return block


@with_or_without_rotary
def test_unmixed_it_is_dense_attention(rotary: bool, device: str) -> None:
    """R = S and E = F = I."""
    block = without_mixing(build("linformer", device, max_length=6, rows=6, rotary=rotary))
    x = put(numbers(2, 6, C), device)
    assert_allclose(block(x).numpy(), dense(block)(x).numpy(), **CLOSE)
    assert_allclose(block.weights(x).numpy(), dense(block).weights(x).numpy(), **CLOSE)


@pytest.mark.parametrize("T", [3, 4, 6, 8, 11])
@with_or_without_rotary
def test_unmixed_segments_are_dense_causal_attention(rotary: bool, T: int, device: str) -> None:
    """R = K and E = F = I."""
    block = without_mixing(build("linformer-causal", device, segment=4, rows=4, rotary=rotary))
    x = put(numbers(2, T, C), device)
    assert_allclose(block(x, causal=True).numpy(), dense(block)(x, causal=True).numpy(), **CLOSE)


@pytest.mark.parametrize("T", [1, 2, 4, 6])
def test_a_short_sequence_uses_the_first_columns(T: int, device: str) -> None:
    """softmax(Q (E[:, :T] K)ᵀ/√D) (F[:, :T] V), for fewer positions than R too."""
    block, x = build("linformer", device, max_length=6, rows=3, heads=1), numbers(2, T, C)
    p = block.state()
    q, k, v = (x @ p[f"{n}.weight"] + p[f"{n}.bias"] for n in ("query", "key", "value"))
    k, v = p["mix_keys"][:, :T] @ k, p["mix_values"][:, :T] @ v
    e = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(C))
    y = e / e.sum(axis=-1, keepdims=True) @ v
    assert_allclose(block(put(x, device)).numpy(), y @ p["out.weight"] + p["out.bias"], **CLOSE)


def test_the_plain_linformer_mixes_later_positions_and_refuses_to_be_causal(device: str) -> None:
    """n = 6, R = 3: influence in all 15 pairs above the diagonal; in 0 of 15 with segments."""
    block, x = build("linformer", device, max_length=6, rows=3), numbers(6, C)
    assert np.triu(influence(block, x, device), 1).sum() == 15
    with pytest.raises(ValueError, match="take the later ones out; use linformer-causal"):
        block(put(x[None], device), causal=True)
    for segment in (1, 2, 4, 6, 9):
        rows = min(3, segment)
        past = build("linformer-causal", device, max_length=6, segment=segment, rows=rows)
        matrix = influence(lambda x, block=past: block(x, causal=True), x, device)
        assert np.triu(matrix, 1).sum() == 0
        assert np.tril(matrix).sum() == 21


def test_positions_may_be_permuted_with_the_columns_of_both_matrices(device: str) -> None:
    order = np.random.default_rng(0).permutation(6)
    block, x = build("linformer", device, max_length=6), numbers(2, 6, C)
    y = block(put(x, device)).numpy()
    for parameter in (block.mix_keys, block.mix_values):
        parameter.data = parameter.numpy()[:, order]
    assert_allclose(block(put(x[:, order], device)).numpy(), y[:, order], **CLOSE)


def test_finished_segments_may_be_permuted_and_each_inside_with_its_columns(device: str) -> None:
    """For the last segment they are a set; their own outputs differ, because they are causal."""
    block, x = build("linformer-causal", device, segment=3, rows=2), numbers(2, 8, C)
    y = block(put(x, device), causal=True).numpy()
    inside = np.array([2, 0, 1])
    for parameter in (block.mix_keys, block.mix_values):
        parameter.data = parameter.numpy()[:, inside]
    order = np.concatenate([3 + inside, inside, [6, 7]])
    moved = block(put(x[:, order], device), causal=True).numpy()
    assert_allclose(moved[:, 6:], y[:, 6:], **CLOSE)
    assert np.abs(moved - y)[:, :6].max() > 0.01


@pytest.mark.parametrize("name", ["linformer", "linformer-causal"])
def test_queries_of_zero_take_the_mean_of_the_mixtures(name: str, device: str) -> None:
    block, x = build(name, device), put(numbers(1, 6, C), device)
    for parameter in block.query.parameters():
        parameter.data = np.zeros(parameter.shape)
    values, past = block.value(x).numpy()[0], name == "linformer-causal"
    f = block.mix_values.numpy()
    if past:  # K = 4 and R = 2: the last of six positions attends to two mixtures and two positions
        seen = np.concatenate([f @ values[:4], values[4:6]])
    else:
        seen = f[:, :6] @ values
    expected = block.out(put(seen.mean(axis=0)[None, None], device)).numpy()[0, 0]
    assert_allclose(block(x, causal=past).numpy()[0, 5], expected, **CLOSE)


def test_hidden_positions_are_left_out_of_the_mixtures_wherever_they_are(device: str) -> None:
    """As if E and F had no columns for them."""
    block, x = build("linformer", device, max_length=6), numbers(1, 6, C)
    allowed = np.array([[1, 0, 1, 1, 0, 1]], bool)
    some = block(put(x, device), allowed=put(allowed, device)).numpy()
    for parameter in (block.mix_keys, block.mix_values):
        parameter.data = parameter.numpy() * allowed
    assert_allclose(some, block(put(x, device)).numpy(), **CLOSE)


def test_sizes_by_default() -> None:
    """√(R·max_length), and never fewer positions than rows."""
    assert build("linformer-causal", max_length=100, segment=0, rows=4).segment == 20
    assert build("linformer-causal", max_length=2, segment=0, rows=4).segment == 4
    assert build("linformer", max_length=10, rows=3).sizes() == {"C": C, "H": 2, "R": 3}
    block = build("linformer", max_length=10, rows=3)
    assert block.mix_keys.shape == block.mix_values.shape == (3, 10)
    assert_array_equal(build("linformer-causal", segment=5, rows=2).mix_keys.shape, (2, 5))
