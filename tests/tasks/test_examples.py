"""Examples: every epoch is a function of its number and complete, with a loss on every token."""

import numpy as np
import pytest

from tinyattn.data import PAD, Corruption, Vocabulary
from tinyattn.tasks.examples import DocumentExamples, Examples, QuestionExamples, TextExamples


def spans(shuffle: bool = True, seed: int = 0) -> DocumentExamples:
    documents = [np.full(5 + i % 7, 2 + i) for i in range(50)]
    return DocumentExamples(
        documents, Corruption(longest=14), 1, batch=8, length=15, seed=seed, shuffle=shuffle
    )


def questions(shuffle: bool = True, seed: int = 0) -> QuestionExamples:
    vocabulary = Vocabulary.from_text("Where was Ada born?Lozumb")
    pairs = [("Where was Ada born?"[: 5 + i % 9], "Lozumb"[: 1 + i % 5]) for i in range(50)]
    return QuestionExamples(pairs, vocabulary, batch=8, length=32, seed=seed, shuffle=shuffle)


def windows(shuffle: bool = True, seed: int = 0) -> TextExamples:
    return TextExamples(np.arange(2, 450), 9, batch=8, seed=seed)


SOURCES = [spans, questions, windows]


def flat(data: Examples, number: int) -> list[list]:
    return [[b.inputs.tolist(), b.targets.tolist()] for b in data.epoch(number)]


@pytest.mark.parametrize("source", SOURCES)
def test_an_epoch_depends_only_on_its_number_and_the_seed(source: type) -> None:
    data = source()
    third = flat(data, 3)
    assert len(third) == data.batches_per_epoch == 7
    assert flat(data, 4) != third
    assert flat(data, 3) == third == flat(source(), 3)
    assert flat(source(seed=1), 3) != third


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_document_occurs_once_per_epoch(shuffle: bool) -> None:
    rows = [row for batch in spans(shuffle).epoch(2) for row in batch.targets]
    assert len(rows) == 50
    seen = [int(row.max()) for row in rows]
    assert sorted(seen) == list(range(2, 52))
    assert (seen == sorted(seen)) is not shuffle


def test_every_token_of_an_example_has_a_loss_but_no_padding() -> None:
    for batch in spans().epoch(0):
        for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
            length = np.count_nonzero(inputs)
            assert (inputs[:length] != PAD).all() and (targets[:length] != PAD).all()
            assert (inputs[length:] == PAD).all() and (targets[length:] == PAD).all()
            np.testing.assert_array_equal(inputs[1:length], targets[: length - 1])


def test_shuffled_batches_have_examples_of_similar_length() -> None:
    """Otherwise half of the work would be padding."""
    for data in (spans(), questions()):
        batches = data.epoch(0)
        padding = [np.mean(batch.inputs == PAD) for batch in batches]
        assert np.mean(padding) < 0.15


def test_windows_are_consecutive_parts_of_the_text() -> None:
    data = windows()
    for number in range(20):
        for batch in data.epoch(number):
            np.testing.assert_array_equal(batch.targets, batch.inputs + 1)
            np.testing.assert_array_equal(np.diff(batch.inputs, axis=1), 1)
    shortest = TextExamples(np.arange(2, 12), 9, batch=8, seed=0)
    assert [b.inputs.tolist() for b in shortest.epoch(0)] == [[list(range(2, 11))]]


def test_tokens_are_counted_with_their_padding() -> None:
    data = spans()
    assert [data.tokens_before(step) for step in (0, 1, 6, 7, 8)] == [
        n * 15 for n in (0, 8, 48, 50, 58)
    ]
