"""Chapter 6: beam search, to find the most likely answers to one question.

A model assigns a probability to every answer: the product of the probabilities of its tokens and of
the MASK that ends it. There are too many answers to try all of them. Beam search proceeds token by
token, and keeps only the most likely beginnings: the *beam*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tinyattn.backend import asnumpy
from tinyattn.graph import no_grad
from tinyattn.limits import whole
from tinyattn.ops import log_softmax
from tinyattn.tasks.evaluation import ANSWER_STEPS, answer, prompt_of
from tinyattn.tasks.knowledge import Trained

BEAM = 16
"""Number of beginnings that are kept. With 64, the first five answers to each of the quickstart's
100 questions are the same."""


class Answer(NamedTuple):
    """An answer and its probability, from 0 to 1."""

    text: str
    probability: float


def ask(trained: Trained, question: str, *, count: int = 5, unknown: str = "error") -> list[Answer]:
    """The answer to a question, as `answer` returns it, then the most likely other answers.

    Forward: p(answer) = Π p(token | question MASK and the tokens before it), the last token is MASK
    Source:  beam search, Lowerre 1976; Differs: no normalization by the length

    Args:
        count: number of answers to return, including the first, 1 to BEAM.
        unknown: what to do with a character that is not in the vocabulary: "error" or "drop".
    Returns: at most `count` answers: first that of `answer`, then others by falling probability.
    Raises: DataError for an empty question or an unknown character; ValueError for a count out of
        range.
    """
    whole("count", count, 1, BEAM)
    prompt = prompt_of(trained.vocabulary, question, unknown)
    (first,) = answer(trained, [question], unknown=unknown)
    others = {found.text: found.probability for found in beam_search(trained, prompt)}
    p = others.pop(first, None)
    if p is None:  # the most likely next token, each time, was not among the likely answers
        given = np.append(trained.vocabulary.encode(first), trained.vocabulary.mask)
        p = probability(trained, prompt, given)
    return [Answer(first, p), *(Answer(*found) for found in others.items())][:count]


def beam_search(trained: Trained, prompt: np.ndarray) -> list[Answer]:
    """The most likely answers that end within ANSWER_STEPS tokens, by falling probability."""
    mask = trained.vocabulary.mask
    ended: list[tuple[np.ndarray, float]] = []  # tokens, and ln p
    beam, scores = prompt[None], np.zeros(1)
    for _ in range(ANSWER_STEPS):
        totals = scores[:, None] + _log_probabilities(trained, beam)
        ended += zip(beam[:, len(prompt) :], totals[:, mask], strict=True)
        totals[:, mask] = -np.inf  # the other sequences continue
        best = np.argsort(-totals, axis=None)[: min(BEAM, np.isfinite(totals).sum())]
        rows, tokens = np.unravel_index(best, totals.shape)
        beam, scores = np.column_stack([beam[rows], tokens]), totals[rows, tokens]
        ended = sorted(ended, key=lambda found: -found[1])[:BEAM]
        if len(ended) == BEAM and ended[-1][1] >= scores.max():
            break  # a longer answer is less likely than its beginning
    return [Answer(trained.vocabulary.decode(ids), float(np.exp(p))) for ids, p in ended]


def probability(trained: Trained, prompt: np.ndarray, tokens: np.ndarray) -> float:
    """The probability that the model generates these tokens after the prompt."""
    total, ids = 0.0, prompt
    for token in tokens:
        total += _log_probabilities(trained, ids[None])[0, token]
        ids = np.append(ids, token)
    return float(np.exp(total))


def _log_probabilities(trained: Trained, ids: np.ndarray) -> np.ndarray:
    """ln p of every possible next token: ids (N, T) -> (N, V) in float64."""
    with no_grad():
        logits = trained.model(ids[:, -trained.model.max_length :])[:, -1]
        return np.asarray(asnumpy(log_softmax(logits).data), np.float64)
