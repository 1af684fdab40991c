"""Dropout masks: the right probability, independent, and the same however a batch is split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.backend import asnumpy, get_device
from tinyattn.ops.dropout import LARGEST_RATE
from tinyattn.rng import DropoutRNG

seeds = st.integers(0, 2**63)
rates = st.floats(0.01, 0.99)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
N = 100_000


def close(share: float, expected: float, n: int = N) -> bool:
    """Within five standard deviations."""
    return abs(share - expected) < 5 * (expected * (1 - expected) / n) ** 0.5


@given(seeds, rates)
def test_elements_are_kept_with_the_given_probability(seed: int, rate: float) -> None:
    assert close(DropoutRNG(seed).mask(rate).keep(np, (N,)).mean(), 1 - rate)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_a_probability_between_two_256ths_is_right_on_average(seed: int, rate: float) -> None:
    keep = DropoutRNG(seed).mask(rate).keep(np, (20_000, 200))
    assert close(keep.mean(), 1 - rate, keep.size)
    assert not close(keep.mean(), 1 - round(rate * 256) / 256, keep.size)


@given(seeds, st.integers(0, 10**6), st.sampled_from([0.1, 0.5]))
def test_seeds_steps_calls_rows_and_neighbours_are_independent(
    seed: int, step: int, rate: float
) -> None:
    """Independent elements are both kept, or both dropped, by the product of the probabilities."""
    dropout_rng, shape = DropoutRNG(seed, step), (N // 100, 100)
    mask = dropout_rng.mask(rate).keep(np, shape)
    others = [
        dropout_rng.mask(rate).keep(np, shape),  # the next call
        DropoutRNG(seed, step + 1).mask(rate).keep(np, shape),
        DropoutRNG(seed + 1, step).mask(rate).keep(np, shape),
        DropoutRNG(seed, step, first_row=N // 100).mask(rate).keep(np, shape),
        *(np.roll(mask, 1, axis) for axis in (0, 1)),
    ]
    for other in others:
        assert close((mask == other).mean(), rate**2 + (1 - rate) ** 2)


@given(shapes, seeds, rates)
def test_every_device_has_the_same_masks(
    device: str, shape: tuple[int, ...], seed: int, rate: float
) -> None:
    there = asnumpy(DropoutRNG(seed).mask(rate).keep(get_device(device).xp, shape))
    assert_array_equal(there, DropoutRNG(seed).mask(rate).keep(np, shape))


@given(hnp.array_shapes(max_dims=4, max_side=6), st.data(), seeds)
def test_a_shorter_sequence_has_the_masks_of_the_longer(
    shape: tuple[int, ...], data: st.DataObject, seed: int
) -> None:
    shorter = data.draw(st.tuples(*(st.integers(1, n) for n in shape)))
    part = DropoutRNG(seed).mask(0.5).keep(np, shape)[tuple(slice(n) for n in shorter)]
    assert_array_equal(DropoutRNG(seed).mask(0.5).keep(np, shorter), part)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(1, 7), seeds)
def test_a_split_batch_has_the_masks_of_the_whole(parts: list[int], width: int, seed: int) -> None:
    """In every dropout call, also if a row has an odd number of elements."""
    whole, first = DropoutRNG(seed, 3), 0
    masks = [whole.mask(0.3).keep(np, (sum(parts), *tail)) for tail in [(width,), (2, width), ()]]
    for rows in parts:
        part = DropoutRNG(seed, 3, first_row=first)
        for mask, tail in zip(masks, [(width,), (2, width), ()], strict=True):
            assert_array_equal(part.mask(0.3).keep(np, (rows, *tail)), mask[first : first + rows])
        first += rows


@given(seeds, rates)
def test_dropout_keeps_the_expectation_and_its_gradient_has_the_mask(
    seed: int, rate: float
) -> None:
    x = Tensor(np.ones(N), requires_grad=True)
    y = ops.dropout(x, rate=rate, dropout_rng=DropoutRNG(seed))
    y.backward(np.ones(N))
    kept = y.numpy() != 0
    assert close(y.numpy().mean() * (1 - rate), 1 - rate)
    assert_array_equal(y.numpy(), kept / (1 - rate))
    assert_array_equal(x.grad, y.numpy())


@pytest.mark.parametrize(("rate", "dropout_rng"), [(0.0, DropoutRNG(1)), (0.9, None)])
def test_without_probability_or_rng_nothing_is_dropped(
    rate: float, dropout_rng: DropoutRNG | None
) -> None:
    assert_array_equal(ops.dropout([1.0, 2.0], rate=rate, dropout_rng=dropout_rng).numpy(), [1, 2])


def test_a_probability_that_eight_bits_cannot_represent_is_refused() -> None:
    keep = DropoutRNG(1).mask(LARGEST_RATE).keep(np, (1000, 1000))
    assert close(keep.mean(), 1 / 256, keep.size)
    for rate in (LARGEST_RATE + 1e-9, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="rate must be at least 0 and at most 255/256; got"):
            DropoutRNG(1).mask(rate).keep(np, (3,))
