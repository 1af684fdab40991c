"""Question pairs: the targets are the answer and the MASK on either side, nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import PAD, Vocabulary, answer_of, pad_rows, question_example

MASK = 1
IDS = st.lists(st.integers(2, 50), min_size=1, max_size=20).map(np.array)


@given(IDS, IDS)
def test_a_pair_is_a5s_pair(question: np.ndarray, answer: np.ndarray) -> None:
    """The rule of the A5 handout: s = q MASK a MASK PAD...; x = s without its end; y = PAD for
    every token of q except the last, and from there on the next token of s."""
    s = np.full(64, PAD)
    s[: len(question) + len(answer) + 2] = [*question, MASK, *answer, MASK]
    y = np.array([PAD] * (len(question) - 1) + s[len(question) :].tolist())
    inputs, targets = question_example(question, answer, MASK)
    np.testing.assert_array_equal(pad_rows([targets], 63)[0], y)
    np.testing.assert_array_equal(inputs, s[: len(inputs)])  # behind them all targets are PAD


def test_an_answer_of_three_has_five_targets() -> None:
    question, answer = np.array([10, 11, 12, 13]), np.array([20, 21, 22])
    inputs, targets = question_example(question, answer, MASK)
    assert inputs.tolist() == [10, 11, 12, 13, MASK, 20, 21, 22]
    assert targets.tolist() == [PAD, PAD, PAD, MASK, 20, 21, 22, MASK]


@pytest.mark.parametrize(
    ("written", "answer"), [("ab\u2047cd\u2047", "ab"), ("abc", "abc"), ("\u2047abc", "")]
)
def test_the_answer_ends_at_the_next_mask(written: str, answer: str) -> None:
    vocabulary = Vocabulary("\u25a1\u2047abcd")
    assert answer_of(vocabulary.encode(written), vocabulary) == answer
