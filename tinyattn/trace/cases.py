"""Wing, trace: questions with known answers, as one batch.

Each measure of this folder changes something inside a model and counts the answers that are still
correct. To generate all answers again after each change would take long. But greedy generation
gives exactly the expected answer if each of its tokens, and then MASK, is the most likely one after
the tokens before it. One call of the model on `question MASK answer` shows that for all questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyattn.backend import get_device
from tinyattn.data.batches import PAD
from tinyattn.data.questions import question_example
from tinyattn.data.text import DataError
from tinyattn.graph import no_grad
from tinyattn.models import GPT
from tinyattn.nn import Hook
from tinyattn.tasks.evaluation import prompt_of
from tinyattn.tasks.knowledge import Trained
from tinyattn.tensor import Tensor
from tinyattn.workers import side_by_side

ROWS = 32
"""Sequences in one call of a model."""

HooksOf = Callable[[slice], Mapping[str, Hook]]
"""The hooks of a call, for these rows of the batch."""


@dataclass(frozen=True)
class Cases:
    """Questions with their answers, N of them, each padded to T tokens.

    Shapes: ids, targets (N, T): a target is the token that comes next in the answer, PAD elsewhere;
        starts (N,): the position of the MASK after the question, which predicts the first token
    """

    questions: list[str]
    answers: list[str]
    ids: np.ndarray
    targets: np.ndarray
    starts: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """The first token of each answer, (N,)."""
        found: np.ndarray = self.targets[np.arange(len(self.ids)), self.starts]
        return found

    def at_start(self, x: np.ndarray) -> np.ndarray:
        """The rows of x (N, T, ..) at the MASKs after the questions: (N, ..)."""
        found: np.ndarray = x[np.arange(len(x)), self.starts]
        return found

    def correct(self, logits: np.ndarray) -> np.ndarray:
        """Whether the model generates each answer, (N,) boolean. Shapes: logits (N, T, V)"""
        found: np.ndarray = ((logits.argmax(-1) == self.targets) | (self.targets == PAD)).all(-1)
        return found

    def take(self, rows: np.ndarray) -> Cases:
        """Some of the cases: their indices, or a boolean for each."""
        rows = np.arange(len(self.ids))[rows]
        return Cases([self.questions[i] for i in rows], [self.answers[i] for i in rows],
                     self.ids[rows], self.targets[rows], self.starts[rows])  # fmt: skip


def cases_of(trained: Trained, pairs: Sequence[tuple[str, str]]) -> Cases:
    """The questions and answers as a batch.

    Raises: DataError for a pair that does not fit the model's context, or for an unknown character.
    """
    vocabulary, rows = trained.vocabulary, []
    for question, answer in pairs:
        asked, expected = prompt_of(vocabulary, question)[:-1], vocabulary.encode(answer)
        ids, targets = question_example(asked, expected, vocabulary.mask)
        if len(ids) > trained.model.max_length:
            raise DataError(
                f"a question with its answer has {len(ids)} tokens, and the model's context is "
                f"{trained.model.max_length}: {question[:40]!r}"
            )
        targets[: len(asked)] = PAD  # the MASK itself is given
        rows.append((ids, targets, len(asked)))
    if not rows:
        raise DataError("there are no questions with answers")
    shape = len(rows), max(len(ids) for ids, _, _ in rows)
    all_ids, all_targets = np.full(shape, PAD), np.full(shape, PAD)
    for i, (ids, targets, _) in enumerate(rows):
        all_ids[i, : len(ids)], all_targets[i, : len(ids)] = ids, targets
    starts = np.array([start for _, _, start in rows])
    return Cases([q for q, _ in pairs], [a for _, a in pairs], all_ids, all_targets, starts)


def run(model: GPT, ids: np.ndarray, hooks: HooksOf | None = None) -> np.ndarray:
    """The logits (N, T, V) of sequences (N, T). Threads may share the rows."""

    def call(rows: slice) -> np.ndarray:
        with no_grad():
            return model(ids[rows], hooks=hooks(rows) if hooks else None).numpy()

    parts = [slice(i, i + ROWS) for i in range(0, len(ids), ROWS)]
    return np.concatenate([*side_by_side(get_device(model.device).xp, call, parts)])


def activations(model: GPT, ids: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some activations for sequences (N, T), by name, each (N, ..)."""
    found: dict[tuple[str, int], np.ndarray] = {}

    def hooks(rows: slice) -> dict[str, Hook]:
        def keep(name: str) -> Hook:
            def hook(x: Tensor) -> None:
                found[name, rows.start] = x.numpy()

            return hook

        return {name: keep(name) for name in names}

    run(model, ids, hooks)
    starts = range(0, len(ids), ROWS)
    return {name: np.concatenate([found[name, start] for start in starts]) for name in names}


def times(factor: np.ndarray) -> Hook:
    """A hook that multiplies an activation."""
    return lambda x: x * Tensor(factor, dtype=x.dtype, device=x.device)


def without_head(layer: int, head: int, heads: int) -> dict[str, Hook]:
    """The hooks that set the output of one head to 0."""
    keep = 1 - np.eye(heads)[head].reshape(1, heads, 1, 1)
    return {f"layers.{layer}.attention.heads": times(keep)}


def put(values: np.ndarray, mask: np.ndarray) -> Hook:
    """A hook that replaces the rows of an activation (N, T, C) where mask (N, T) is True."""

    def hook(x: Tensor) -> Tensor:
        changed = np.where(mask[..., None], values, x.numpy())
        return Tensor(changed, dtype=x.dtype, device=x.device)

    return hook


def form_of(questions: Sequence[str]) -> tuple[str, str]:
    """The words that all questions have before the name, and after it, with the spaces.

    Raises: DataError if the questions do not differ, or one has nothing between these words.
    """
    before, after = _form(questions)
    if any(len(question) <= len(before) + len(after) for question in questions):
        raise DataError("the questions must have one form with different names, such as 'Where was "
                        f"X born?'; got {len({*questions})} different ones, such as "
                        f"{questions[0][:60]!r}")  # fmt: skip
    return before, after


def _form(questions: Sequence[str]) -> tuple[str, str]:
    return _shared(questions), _shared([question[::-1] for question in questions])[::-1]


def _shared(texts: Sequence[str]) -> str:
    """The whole words, with a space after each, with which all texts begin."""
    low, high = min(texts), max(texts)  # what these two share, all share
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    return low[: low.rfind(" ", 0, same) + 1]


def names_in(questions: Sequence[str]) -> list[str]:
    """The part of each question that differs from the others: the name of a person."""
    before, after = form_of(questions)
    return [question[len(before) : len(question) - len(after)] for question in questions]


def parts_of(cases: Cases) -> dict[str, np.ndarray]:
    """The parts of the sequences, by name: which positions belong to it, (N, T) boolean.

    A question is a name between words that all questions have. The parts are the words before, the
    first name, the last name (all names after the first), the words after, MASK and the answer.
    """
    (before, after), (N, T) = form_of(cases.questions), cases.ids.shape
    parts = {part: np.zeros((N, T), bool) for part in
             (before.strip() or "before", "first name", "last name", after.strip() or "after",
              "MASK", "answer")}  # fmt: skip
    for i, (name, start) in enumerate(zip(names_in(cases.questions), cases.starts, strict=True)):
        first = len(before) + len(name.partition(" ")[0])
        cuts = [0, len(before), first, len(before) + len(name), start, start + 1, T]
        for mask, low, high in zip(parts.values(), cuts[:-1], cuts[1:], strict=True):
            mask[i, low:high] = True
        parts["answer"][i] &= cases.targets[i] != PAD
    return {part: mask for part, mask in parts.items() if mask.any()}


NAMES = "first name", "last name"


def letters_of(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each letter of the names, as `parts_of` has the parts: (N, T) boolean."""
    found = {}
    for name in [name for name in NAMES if name in parts]:
        place = np.where(parts[name], np.cumsum(parts[name], axis=-1), 0)
        skip = name == "last name"  # it begins with a space
        for letter in range(1 + skip, place.max() + 1):
            found[f"{name}, letter {letter - skip}"] = place == letter
    return found
