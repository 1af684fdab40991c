"""Span corruption: every example is the document itself, rearranged by the rules of A5."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import Corruption

MASK, SPACE = 1, 40


def cut(example: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prefix, span and suffix of an example `prefix MASK suffix MASK span`."""
    first, second = np.flatnonzero(example == MASK)
    return example[:first], example[second + 1 :], example[first + 1 : second]


@given(
    size=st.integers(0, 130),
    longest=st.integers(4, 112),
    truncate=st.sampled_from([0.0, 0.5, 1.0]),
    words=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_an_example_contains_the_document_and_nothing_else(
    size: int, longest: int, truncate: float, words: int, seed: int
) -> None:
    document = np.arange(2, 2 + size)  # all different, so that an exchange would be detected
    corruption = Corruption(longest, truncate, words=words)
    example = corruption(document, MASK, np.random.default_rng(seed), space=SPACE)
    prefix, span, suffix = cut(example)
    text = np.concatenate([prefix, span, suffix])
    np.testing.assert_array_equal(text, document[: len(text)])
    assert min(4, size) <= len(text) <= min(longest, size)
    assert len(span) >= 1 or size == 0 or words


def test_truncations_are_uniform_over_4_to_112() -> None:
    rng, document = np.random.default_rng(0), np.arange(2, 200)
    lengths = [len(Corruption()(document, MASK, rng)) - 2 for _ in range(20_000)]
    found, counts = np.unique(lengths, return_counts=True)
    assert found.tolist() == list(range(4, 113))
    expected = len(lengths) / len(found)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)  # five standard deviations


@pytest.mark.parametrize("length", [8, 50, 112])
def test_spans_are_uniform_around_a_quarter_of_the_text(length: int) -> None:
    rng, document = np.random.default_rng(0), np.arange(2, 2 + length)
    cuts = [cut(Corruption(length, truncate=0)(document, MASK, rng)) for _ in range(5_000)]
    spans = np.array([len(span) for _, span, _ in cuts])
    assert set(spans) == set(range(1, 2 * (length // 4)))
    assert abs(spans.mean() - length // 4) < 5 * spans.std() / np.sqrt(len(spans))
    # Wherever the span is, the rest is before it as often as behind it.
    uneven = np.array([len(prefix) - len(suffix) for prefix, _, suffix in cuts])
    assert abs(uneven.mean()) < 5 * uneven.std() / np.sqrt(len(uneven))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7])
def test_short_texts_lose_one_token(length: int) -> None:
    rng, document = np.random.default_rng(0), np.arange(2, 2 + length)
    cuts = [cut(Corruption()(document, MASK, rng)) for _ in range(500)]
    spans = {len(span) for _, span, _ in cuts}
    starts = {len(prefix) for prefix, _, _ in cuts}
    assert spans == {1} and starts == set(range(length))


def test_an_empty_document_is_two_masks() -> None:
    example = Corruption()(np.array([], np.int64), MASK, np.random.default_rng(0))
    assert example.tolist() == [MASK, MASK]


def test_a_draw_beyond_the_end_takes_the_whole_document() -> None:
    rng, document = np.random.default_rng(0), np.arange(2, 22)
    lengths = np.array([len(Corruption()(document, MASK, rng)) - 2 for _ in range(2_000)])
    # 93 of the 109 lengths from 4 to 112 are 20 or more.
    assert lengths.max() == 20
    assert abs(np.mean(lengths == 20) - 93 / 109) < 0.04


SENTENCE = np.array([9, 9, 9, SPACE, 8, SPACE, 7, 7, SPACE, 6, 6, 6, 6, SPACE, 5])


def test_whole_words_are_cut_out_with_this_setting() -> None:
    """Any one, two or three words in a row, without the spaces around them."""
    rng, corruption = np.random.default_rng(0), Corruption(longest=15, truncate=0, words=3)
    cuts = [cut(corruption(SENTENCE, MASK, rng, space=SPACE)) for _ in range(500)]
    for prefix, span, suffix in cuts:
        assert len(prefix) == 0 or prefix[-1] == SPACE
        assert len(suffix) == 0 or suffix[0] == SPACE
        assert span[0] != SPACE and span[-1] != SPACE
        np.testing.assert_array_equal(np.concatenate([prefix, span, suffix]), SENTENCE)
    counts = [1 + np.count_nonzero(span == SPACE) for _, span, _ in cuts]
    assert set(counts) == {1, 2, 3}
    assert len({(len(prefix), len(span)) for prefix, span, _ in cuts}) == 5 + 4 + 3


@pytest.mark.parametrize(
    "wrong",
    [{"longest": 3}, {"shortest": 0}, {"truncate": -0.1}, {"truncate": 1.1}, {"words": -1}],
    ids=str,
)
def test_invalid_settings_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="must be"):
        Corruption(**wrong)
