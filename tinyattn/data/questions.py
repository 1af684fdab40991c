"""Chapter 5: questions and answers.

A question with its answer becomes one text, `question MASK answer MASK`. Only the answer and the
MASK that ends it are trained, not the question: that is given. Next: settings whose numbers can be
meant (checks.py).
"""

from __future__ import annotations

import numpy as np

from tinyattn.data.batches import PAD
from tinyattn.data.vocabulary import Vocabulary


def question_example(
    question: np.ndarray, answer: np.ndarray, mask: int
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one pair, each (len(question) + len(answer) + 1,) ids.

    As in A5, training starts one symbol early: the last symbol of the question has the first MASK
    as its target, then come the answer and the closing MASK: len(answer) + 2 trained targets.
    """
    text = np.concatenate([question, [mask], answer, [mask]])
    targets = text[1:].copy()
    targets[: len(question) - 1] = PAD
    return text[:-1], targets


def answer_of(generated: np.ndarray, vocabulary: Vocabulary) -> str:
    """The answer in what a model wrote after `question MASK`: the text up to the next MASK."""
    ends = np.flatnonzero(generated == vocabulary.mask)
    return vocabulary.decode(generated[: ends[0]] if len(ends) else generated)
