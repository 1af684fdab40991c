"""Scores without keys: what they depend on, and what they do not depend on."""

import numpy as np
import pytest
from blocks import CLOSE, LONGEST, C, H, build, influence, new, numbers, put
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor
from tinyattn.attention import RandomSynthesizer, Synthesizer, causal

T = 6


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("synthesizer", np.eye(T)), ("random-synthesizer", np.zeros((T, T)))],
)
def test_the_weights_of_a_row_depend_on_its_own_position_at_most(
    name: str, expected: np.ndarray, past: bool, device: str
) -> None:
    """Row t of the dense synthesizer depends on x_t, that of the random one on no input."""
    block = build(name, device)

    def weights(x: Tensor) -> Tensor:
        return block.weights(x, causal=past).transpose(0, 2, 1, 3).reshape(1, T, H * T)

    moved = influence(weights, numbers(T, C), device)
    if past:
        expected = expected.copy()
        expected[0, 0] = 0  # the first position can only attend to itself
    assert_array_equal(moved, expected)


def test_the_same_token_attends_to_the_same_positions_wherever_it_is(device: str) -> None:
    block, x = build("synthesizer", device), numbers(1, T, C)
    x[:, 4] = x[:, 1]
    weights = block.weights(put(x, device)).numpy()
    assert_allclose(weights[:, :, 4], weights[:, :, 1], **CLOSE)


def test_values_may_be_permuted_with_the_columns_of_scores(device: str) -> None:
    """For all queries: a column of scores belongs to a position, whatever token is there."""
    order = np.random.default_rng(0).permutation(T)
    block, x = build("random-synthesizer", device, max_length=T), numbers(1, T, C)
    y = block(put(x, device)).numpy()
    block.table.data = block.table.numpy()[:, :, order]
    assert_allclose(block(put(x[:, order], device)).numpy(), y, **CLOSE)
    block.table.data = block.table.numpy()[:, order]
    assert_allclose(block(put(x[:, order], device)).numpy(), y[:, order], **CLOSE)


@pytest.mark.parametrize("name", ["synthesizer", "random-synthesizer"])
def test_scores_of_zero_take_the_mean_of_the_values(name: str, device: str) -> None:
    block, x = build(name, device), numbers(2, T, C)
    for parameter in [block.table] if name.startswith("random") else block.scores.parameters():
        parameter.data = np.zeros(parameter.shape)
    values = block.value(put(x, device)).numpy()
    means = np.broadcast_to(values.mean(axis=1, keepdims=True), values.shape)
    assert_allclose(block(put(x, device)).numpy(), block.out(put(means, device)).numpy(), **CLOSE)


@pytest.mark.parametrize("name", ["synthesizer", "random-synthesizer"])
def test_any_pairs_can_be_masked(name: str, device: str) -> None:
    block, x = build(name, device), put(numbers(2, T, C), device)
    allowed = numbers(T, T) < 0.5
    there, past = put(allowed, device), put(causal(T, T), device)
    whole, some = block.weights(x).numpy(), block.weights(x, allowed=there).numpy()
    kept = whole * allowed
    total = kept.sum(axis=-1, keepdims=True)
    assert_allclose(some, kept / np.where(total, total, 1), **CLOSE)
    assert_array_equal(block(x, causal=True).numpy(), block(x, allowed=past).numpy())


def test_parameters_are_those_of_a5() -> None:
    """A and its bias, B and its bias b2 shared by the heads, V and the output projection."""
    block = new("synthesizer", length=9)
    assert isinstance(block, Synthesizer)
    assert block.hidden.weight.shape == (C, C)
    assert block.scores.weight.shape == (C // H, 9)
    assert block.parameter_count() == 3 * (C * C + C) + (C // H) * 9 + 9
    assert np.abs(block.scores.weight.numpy()).max() <= 0.001
    assert not block.scores.bias.numpy().any()
    table = new("random-synthesizer")
    assert isinstance(table, RandomSynthesizer)
    assert table.parameter_count() == 2 * (C * C + C) + H * LONGEST * LONGEST
    assert 0.015 < table.table.numpy().std() < 0.025


def test_max_length_limits_its_sequences() -> None:
    assert build("synthesizer")(Tensor(numbers(1, LONGEST, C))).shape == (1, LONGEST, C)
    for name in ("synthesizer", "random-synthesizer"):
        with pytest.raises(ValueError, match="at most 5; got 6; each position has a learned"):
            build(name, length=5)(Tensor(numbers(1, 6, C)))
