"""Batches: after cutting and splitting, no target is lost."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import PAD, Batch, pad_rows
from tinyattn.models import GPT, GPTConfig
from tinyattn.tasks.knowledge import language_model_loss

MODEL = GPT(GPTConfig(vocabulary=9, context=12, layers=2, heads=2, width=8, dropout=0.0), seed=1)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Sequences of several lengths, with PAD targets before an answer, inside, or everywhere."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    inputs = [rng.integers(1, 9, n) for n in lengths]
    targets = [rng.integers(1, 9, n) * (rng.random(n) < draw(st.sampled_from([0.3, 1])))
               for n in lengths]  # fmt: skip
    return Batch(pad_rows(inputs, max(lengths)), pad_rows(targets, max(lengths)))


@given(batches(), st.integers(1, 12))
def test_the_losses_of_the_parts_sum_to_that_of_the_whole(batch: Batch, parts: int) -> None:
    loss = language_model_loss(MODEL)
    divisor = float(max(1, batch.trained))
    split = batch.split(parts)
    whole = loss(batch, None, divisor).item()
    assert sum(loss(part, None, divisor).item() for part in split) == pytest.approx(whole, abs=1e-5)
    assert sum(part.trained for part in split) == batch.trained


@given(batches(), st.integers(1, 12))
def test_parts_end_with_their_longest_row_and_the_largest_is_as_small_as_can_be(
    batch: Batch, parts: int
) -> None:
    split = batch.split(parts)
    assert sum(len(part.inputs) for part in split) == len(batch.inputs)
    assert 1 <= len(split) <= parts
    for part in split:
        assert part.inputs.shape == part.targets.shape
        assert (part.targets[:, -1] != PAD).any() or part.inputs.shape[1] == 1
    lengths = sorted((max(1, *np.flatnonzero(row) + 1, 1) for row in batch.targets), reverse=True)
    n = len(lengths)
    every_way = (
        [0, *cuts, n] for k in range(min(parts, n)) for cuts in combinations(range(1, n), k)
    )
    least = min(max((b - a) * lengths[a] for a, b in pairwise(cuts)) for cuts in every_way)
    assert max(part.inputs.size for part in split) == least


def test_a_batch_of_equal_rows_is_halved() -> None:
    rows = np.ones((32, 128), int)
    assert [part.inputs.shape for part in Batch(rows, rows).split(2)] == [(16, 128), (16, 128)]


def test_rows_are_padded_at_the_end() -> None:
    rows = pad_rows([np.array([3, 4]), np.array([], int), np.array([5])], 3)
    assert rows.tolist() == [[3, 4, PAD], [PAD] * 3, [5, PAD, PAD]]
