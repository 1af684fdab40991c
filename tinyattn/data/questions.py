"""Chapter 5: questions and answers.

A question with its answer becomes one sequence, `question MASK answer MASK`. The targets are the
answer and the MASKs around it. The question is given, so it is no target. Next: checking settings
(checks.py).
"""

from __future__ import annotations

import numpy as np

from tinyattn.data.batches import PAD
from tinyattn.data.vocabulary import Vocabulary


def question_example(
    question: np.ndarray, answer: np.ndarray, mask: int
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one pair, each (len(question) + len(answer) + 1,) ids.

    As in A5 (assignment 5 of Stanford CS224N), the first MASK is a target too, that of the last
    token of the question. Then come the answer and the second MASK, so there are len(answer) + 2
    targets; the others are PAD.
    """
    sequence = np.concatenate([question, [mask], answer, [mask]])
    targets = sequence[1:].copy()
    targets[: len(question) - 1] = PAD
    return sequence[:-1], targets


def answer_of(generated: np.ndarray, vocabulary: Vocabulary) -> str:
    """The answer in what a model generated after `question MASK`: all up to the next MASK."""
    ends = np.flatnonzero(generated == vocabulary.mask)
    return vocabulary.decode(generated[: ends[0]] if len(ends) else generated)
