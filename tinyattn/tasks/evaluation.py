"""Chapter 6: evaluation, the accuracy of answers and its confidence interval.

An answer is right if it equals the expected place, letter for letter. The confidence interval is a
range for the accuracy that many more questions would show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.files import write
from tinyattn.data.questions import answer_of
from tinyattn.data.text import DataError, read_answered, read_text
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.models import continuations
from tinyattn.tasks.knowledge import Trained, pretraining
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.runs import PREDICTIONS
from tinyattn.tasks.task import Job
from tinyattn.tasks.text_task import TextTask
from tinyattn.training.checkpoint import write_errors

ANSWER_STEPS = 32
"""Largest number of tokens in a generated answer, as in A5 (assignment 5 of Stanford CS224N)."""

QUESTION_MARKS = "?", "\uff1f", "\u061f"
"""The common, the full-width and the Arabic question mark."""


Scored = tuple[dict[str, Any], str]
"""The score of a model: as a dictionary for programs, and as text for people."""


@dataclass(frozen=True)
class Score:
    """The number of right answers, out of `total`."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The fraction of right answers, in 0..1."""
        return self.correct / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the accuracy: Wilson's score interval (Wilson 1927).

        If much less than one right answer is expected, or one wrong answer, the interval contains
        the true accuracy in less than 95 % of cases (derivations/23_knowledge.md).
        """
        n, p, z = self.total, self.accuracy, 1.959963984540054
        if n == 0:
            return 0.0, 1.0
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low = centre - half if self.correct else 0.0  # exactly 0, without rounding
        return low, centre + half if self.correct < n else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON; other programs use its keys."""
        low, high = self.interval
        return {**asdict(self), "accuracy": self.accuracy, "low": low, "high": high}

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.correct} of {self.total}, {100 * self.accuracy:.1f} % "
            f"(95 % interval {100 * low:.1f} to {100 * high:.1f})"
        )


def score(predictions: Sequence[str], answers: Sequence[str]) -> Score:
    """The number of exact matches."""
    return Score(sum(p == a for p, a in zip(predictions, answers, strict=True)), len(answers))


def scored(predictions: Sequence[str], answers: Sequence[str]) -> Scored:
    """The number of exact matches, in the form that a task's `score` returns."""
    found = score(predictions, answers)
    return found.as_dict(), f"correct: {found}"


def fisher_exact(a: Score, b: Score) -> float:
    """The p-value of Fisher's exact test: whether two accuracies differ.

    It is the probability of counts at least as far apart if both true accuracies were equal.

    Forward: p = Σ P(k) over all k with P(k) ≤ P(a.correct); P(k) = C(n, k) C(m, t - k)/C(n + m, t)
             is the probability that k of all t right answers are a's, with n and m questions
    Source:  Fisher's exact test, two-sided (Fisher 1935). It assumes different questions; if both
             answered the same ones, comparing which of them are right says more
    """
    n, m, t = a.total, b.total, a.correct + b.correct
    ways = {k: math.comb(n, k) * math.comb(m, t - k) for k in range(max(0, t - m), min(n, t) + 1)}
    return sum(w for w in ways.values() if w <= ways[a.correct]) / math.comb(n + m, t)


def most_common(answers: Sequence[str]) -> str:
    """The most frequent answer; among equally frequent answers the first in the alphabet."""
    return min(Counter(answers).items(), key=lambda item: (-item[1], item[0]))[0]


def answer(
    trained: Trained,
    questions: Sequence[str],
    *,
    unknown: str = "error",
    workers: int | None = None,
    on_answers: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """The model's answer to each question, by greedy generation from the prompt `question MASK`.

    An answer ends at the next MASK, or after ANSWER_STEPS tokens.

    Args:
        unknown: what to do with a character that is not in the vocabulary: "error" or "drop".
        workers: number of threads; by default one per core.
        on_answers: called after each group of answers with their number.
    Raises: DataError for an empty question or an unknown character.
    """
    vocabulary = trained.vocabulary
    prompts = [prompt_of(vocabulary, question, unknown) for question in questions]
    generated = continuations(
        trained.model, prompts, ANSWER_STEPS, end=vocabulary.mask, workers=workers,
        on_generated=on_answers,
    )  # fmt: skip
    return [answer_of(ids, vocabulary) for ids in generated]


def prompt_of(vocabulary: Vocabulary, question: str, unknown: str = "error") -> np.ndarray:
    """The token ids of the prompt `question MASK`; the answer follows after it.

    Raises: DataError for an empty question or an unknown character.
    """
    ids = vocabulary.encode(question, unknown=unknown)
    if not len(ids):
        raise DataError(f"the question {question!r} is empty")
    return np.append(ids, vocabulary.mask)


def check_questions(path: str | Path, pairs: Sequence[tuple[str, str | None]]) -> None:
    """Check that each line has an answer or ends with a question mark, so that the lines of other
    texts never replace a run's predictions.

    Raises: DataError with the first line that has neither.
    """
    for line, place in pairs:
        if place is None and not line.rstrip().endswith(QUESTION_MARKS):
            raise DataError(
                f"{path}: a line has no tab with an answer and does not end with a question mark: "
                f"{line[-40:]!r}; if these are questions all the same, name a file for the answers "
                "with --predictions FILE"
            )


def save_predictions(path: str | Path, predictions: Sequence[str]) -> None:
    """Write one place per line, the format of A5. Raises: CheckpointError if that fails."""
    with write_errors():
        write(path, "".join(p.replace("\n", " ") + "\n" for p in predictions))


def examined(
    trained: Trained, pairs: Sequence[tuple[str, str]], folder: Path, workers: int | None = None
) -> Score:
    """The model's score on question-answer pairs; its answers are saved in the run's folder."""
    predictions = answer(trained, [question for question, _ in pairs], workers=workers)
    save_predictions(folder / PREDICTIONS, predictions)
    return score(predictions, [place for _, place in pairs])


class Knowledge(TextTask):
    """Birthplaces, the main task. The commands `pretrain` and `finetune` have more options."""

    name, stages = "knowledge", ("pretrain", "finetune")

    def job(self, path: Path, recipe: Recipe, seed: int) -> Job:
        """The job of pretraining on a corpus."""
        return pretraining(read_text(path), recipe, seed)

    def score(self, run: Trained, path: Path, workers: int | None = None) -> Scored:
        """The number of exact matches, on the pairs in a file."""
        pairs = read_answered(path)
        return scored(answer(run, [q for q, _ in pairs], workers=workers), [a for _, a in pairs])


TASK = Knowledge()
