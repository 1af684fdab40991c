"""Chapter 6: judging the answers.

An answer is right if it is the expected place, letter for letter. Of so many right answers out of
so many questions, the interval says what share a much longer examination might show.
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
from tinyattn.models import continuations
from tinyattn.tasks.knowledge import Trained, pretraining
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.runs import PREDICTIONS
from tinyattn.tasks.task import Job
from tinyattn.tasks.texts import TextTask
from tinyattn.training.checkpoint import write_errors

ANSWER_STEPS = 32
"""Symbols a model may write in answer to a question, as in A5."""

QUESTION_MARKS = "?", "\uff1f", "\u061f"
"""The common one, the wide one and the Arabic one."""


Scored = tuple[dict[str, Any], str]
"""How good a model is: for programs, and for people."""


@dataclass(frozen=True)
class Score:
    """How many answers were right. `low` and `high` bound the true share with 95 % confidence."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share of right answers, in 0..1."""
        return self.correct / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval (Wilson 1927).

        Where well under one right answer is expected, or one wrong one, it has the true share in
        it less often than in 95 % of cases (derivations/23_knowledge.md).
        """
        n, p, z = self.total, self.accuracy, 1.959963984540054
        if n == 0:
            return 0.0, 1.0
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low = centre - half if self.correct else 0.0  # exactly, and not by rounding
        return low, centre + half if self.correct < n else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        low, high = self.interval
        return {**asdict(self), "accuracy": self.accuracy, "low": low, "high": high}

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.correct} of {self.total}, {100 * self.accuracy:.1f} % "
            f"(95 % interval {100 * low:.1f} to {100 * high:.1f})"
        )


def score(predictions: Sequence[str], answers: Sequence[str]) -> Score:
    """Exact matches."""
    return Score(sum(p == a for p, a in zip(predictions, answers, strict=True)), len(answers))


def scored(predictions: Sequence[str], answers: Sequence[str]) -> Scored:
    """Exact matches, as a task's `score` gives them."""
    found = score(predictions, answers)
    return found.as_dict(), f"correct: {found}"


def fisher_exact(a: Score, b: Score) -> float:
    """How likely counts at least as far apart would be if both had the same true share.

    Forward: p = Σ P(k) over all k with P(k) ≤ P(a.correct); P(k) = C(n, k) C(m, t - k)/C(n + m, t)
             is the chance that k of the t right answers in all are a's, with n and m questions
    Source:  Fisher's exact test, two-sided (Fisher 1935). It takes the questions for different
             ones; where both answered the same, which they got right says more than how many
    """
    n, m, t = a.total, b.total, a.correct + b.correct
    ways = {k: math.comb(n, k) * math.comb(m, t - k) for k in range(max(0, t - m), min(n, t) + 1)}
    return sum(w for w in ways.values() if w <= ways[a.correct]) / math.comb(n + m, t)


def most_common(answers: Sequence[str]) -> str:
    """The most frequent answer; of equally frequent ones, the first in the alphabet."""
    return min(Counter(answers).items(), key=lambda item: (-item[1], item[0]))[0]


def answer(
    trained: Trained,
    questions: Sequence[str],
    *,
    unknown: str = "error",
    workers: int | None = None,
    on_answers: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """The model's answer to each question: greedy, from `question MASK` up to the next MASK.

    Args:
        unknown: what to do with a character that is not in the vocabulary: "error" or "drop".
        workers: threads; by default one a core.
        on_answers: told how many questions are answered, each time that some are.
    Raises: DataError for a question with an unknown character, or one that is empty.
    """
    vocabulary = trained.vocabulary
    prompts = []
    for question in questions:
        ids = vocabulary.encode(question, unknown=unknown)
        if not len(ids):
            raise DataError(f"the question {question!r} is empty")
        prompts.append(np.append(ids, vocabulary.mask))
    written = continuations(
        trained.model, prompts, ANSWER_STEPS, end=vocabulary.mask, workers=workers,
        on_written=on_answers,
    )  # fmt: skip
    return [answer_of(ids, vocabulary) for ids in written]


def check_questions(path: str | Path, asked: Sequence[tuple[str, str | None]]) -> None:
    """See that each line has an answer, or ends with a question mark. So the lines of a text never
    replace a run's predictions.

    Raises: DataError with the first line that has neither.
    """
    for line, place in asked:
        if place is None and not line.rstrip().endswith(QUESTION_MARKS):
            raise DataError(
                f"{path}: has no tabs with answers, and no question mark behind {line[-40:]!r}; "
                "give pairs, or questions; if these are questions, say where to write their "
                "answers with --predictions FILE"
            )


def save_predictions(path: str | Path, predictions: Sequence[str]) -> None:
    """One place a line, A5's format. Raises: CheckpointError if it cannot be written."""
    with write_errors():
        write(path, "".join(p.replace("\n", " ") + "\n" for p in predictions))


def examined(
    trained: Trained, pairs: Sequence[tuple[str, str]], folder: Path, workers: int | None = None
) -> Score:
    """How many questions a model answers right; its answers are kept in the run's folder."""
    predictions = answer(trained, [question for question, _ in pairs], workers=workers)
    save_predictions(folder / PREDICTIONS, predictions)
    return score(predictions, [place for _, place in pairs])


class Knowledge(TextTask):
    """The task of this chapter. Its commands `pretrain` and `finetune` can say more of it."""

    name, stages = "knowledge", ("pretrain", "finetune")

    def job(self, path: Path, recipe: Recipe, seed: int) -> Job:
        """Pretraining on a corpus."""
        return pretraining(read_text(path), recipe, seed)

    def score(self, run: Trained, path: Path, workers: int | None = None) -> Scored:
        """Exact matches of answers to a file of pairs."""
        pairs = read_answered(path)
        return scored(answer(run, [q for q, _ in pairs], workers=workers), [a for _, a in pairs])


TASK = Knowledge()
