"""Latents: positions that summarize the past for later positions."""

import numpy as np
import pytest
from blocks import CLOSE, C, build, influence, numbers, put, with_or_without_rotary
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor
from tinyattn.attention import MultiHead


@with_or_without_rotary
def test_in_its_first_segment_it_is_dense_causal_attention(rotary: bool, device: str) -> None:
    """There are no latents yet."""
    block, x = build("latent", device, segment=7, rotary=rotary), put(numbers(2, 7, C), device)
    dense = build("multihead", device, rotary=rotary)
    for name in ("query", "key", "value", "out"):
        setattr(dense, name, getattr(block, name))
    assert_allclose(block(x, causal=True).numpy(), dense(x, causal=True).numpy(), **CLOSE)
    later = build("latent", device, segment=4, rotary=rotary)(x, causal=True).numpy()
    assert np.abs(later - block(x, causal=True).numpy())[:, 4:].min() > 0


def test_later_queries_attend_to_a_past_segment_through_its_latent_only(device: str) -> None:
    """All except its last position may be permuted: for the latent they are a set."""
    block, x = build("latent", device, segment=4), numbers(1, 11, C)
    y = block(put(x, device), causal=True).numpy()
    inside = np.array([2, 0, 1, 3, 6, 4, 5, 7, 8, 9, 10])
    moved = block(put(x[:, inside], device), causal=True).numpy()
    assert_allclose(moved[:, 8:], y[:, 8:], **CLOSE)
    across = np.array([6, 0, 1, 3, 2, 4, 5, 7, 8, 9, 10])  # the first latent attends to another set
    moved = block(put(x[:, across], device), causal=True).numpy()
    assert np.abs(moved - y)[:, 8:].min() > 0


def test_without_latent_values_a_segment_is_independent(device: str) -> None:
    """If the values of the latents are zero, a query depends on its own segment only."""
    block = build("latent", device, segment=4)
    for parameter in block.latent_value.parameters():
        parameter.data = np.zeros(parameter.shape)
    for parameter in block.latent_key.parameters():
        parameter.data = np.zeros(parameter.shape)

    def run(x: Tensor) -> Tensor:
        return block(x, causal=True)

    expected = np.kron(np.eye(3), np.ones((4, 4)))[:11, :11]
    assert_array_equal(influence(run, numbers(11, C), device), np.tril(expected))


def test_queries_of_zero_take_means_of_means(device: str) -> None:
    """A latent is the mean of all values up to it, and later one value among others."""
    block, x = build("latent", device, segment=2), put(numbers(1, 5, C), device)
    for parameter in block.query.parameters():
        parameter.data = np.zeros(parameter.shape)
    v = block.value(x).numpy()[0]
    z = put(np.stack([v[:2].mean(axis=0), v[:4].mean(axis=0)])[None], device)
    seen = np.concatenate([block.latent_value(z).numpy()[0], v[4:]])
    expected = block.out(put(seen.mean(axis=0)[None, None], device)).numpy()[0, 0]
    assert_allclose(block(x, causal=True).numpy()[0, 4], expected, **CLOSE)


def test_sizes_and_parameters() -> None:
    assert build("latent", max_length=100, segment=0).segment == 10
    assert build("latent", max_length=1, segment=0).segment == 1
    assert build("latent", max_length=100, segment=0).sizes() == {"C": C, "H": 2, "K": 10}
    block = build("latent")
    assert isinstance(block, MultiHead)
    assert block.parameter_count() == 6 * (C * C + C)  # two more maps than multi-head attention


def test_it_must_be_causal() -> None:
    with pytest.raises(ValueError, match="Latent cannot attend to later positions: it is causal"):
        build("latent")(Tensor(numbers(1, 4, C)))
