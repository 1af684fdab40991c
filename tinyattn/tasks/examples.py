"""Chapter 5: training examples and the batches of an epoch.

The batches of an epoch are a pure function of a seed and the number of the epoch. No state passes
from one epoch to the next, so a run can be resumed anywhere. Next: preparing training examples from
a corpus and from questions (tasks/preparation.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tinyattn.data.batches import Batch, pad_rows
from tinyattn.data.questions import question_example
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.limits import seed_of

if TYPE_CHECKING:
    from tinyattn.data.cloze import Cloze, Gaps
    from tinyattn.data.corruption import Corruption

Example = tuple[np.ndarray, np.ndarray]  # inputs and targets, of equal length

POOL = 8
"""Shuffled examples are sorted by length within so many batches: enough that a batch has little
padding, and few enough that its examples differ from epoch to epoch."""


class Examples:
    """The base class of all training data. It puts examples into batches, shuffled or in order.

    Args:
        count: how many examples an epoch has.
        batch: how many examples a batch has.
        length: for how many tokens `tokens_before` counts an example.
        seed: for the order and for the random choices in examples.
        shuffle: a new order every epoch, with sequences of similar length in one batch.
    """

    def __init__(self, *, count: int, batch: int, length: int, seed: int, shuffle: bool) -> None:
        self.count, self.batch, self.length = count, batch, length
        self.seed, self.shuffle = seed_of(seed), shuffle
        self.batches_per_epoch = -(-count // batch)

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """Example number `index`; its random choices come from `rng`."""
        raise NotImplementedError(f"{type(self).__name__}: define a method `example`")

    def epoch(self, number: int) -> list[Batch]:
        """The batches of one epoch, in order."""
        rng = np.random.default_rng([self.seed, number])
        order = rng.permutation(self.count) if self.shuffle else np.arange(self.count)
        examples = [self.example(int(i), rng) for i in order]
        if self.shuffle:
            size = POOL * self.batch
            pools = [examples[i : i + size] for i in range(0, self.count, size)]
            examples = [e for pool in pools for e in sorted(pool, key=lambda e: len(e[0]))]
        starts = np.arange(0, self.count, self.batch)
        if self.shuffle:
            rng.shuffle(starts)
        return [_batch(examples[i : i + self.batch]) for i in starts]

    def tokens_before(self, step: int) -> int:
        """How many tokens, PADs included, all steps before this one have processed."""
        epochs, index = divmod(step, self.batches_per_epoch)
        return (epochs * self.count + min(index * self.batch, self.count)) * self.length


def _batch(examples: list[Example]) -> Batch:
    longest = max(len(inputs) for inputs, _ in examples)
    return Batch(
        pad_rows([inputs for inputs, _ in examples], longest),
        pad_rows([targets for _, targets in examples], longest),
    )


class DocumentExamples(Examples):
    """Documents, new every epoch: changed by span corruption, or sometimes into a cloze.

    Args:
        space: the id of the space between words.
        cloze: how clozes are made, if any are.
        gaps: for each document what a cloze can ask for, or None.
    """

    def __init__(
        self,
        documents: list[np.ndarray],
        corruption: Corruption,
        mask: int,
        *,
        space: int = -1,
        cloze: Cloze | None = None,
        gaps: Sequence[Gaps | None] = (),
        batch: int,
        length: int,
        seed: int,
        shuffle: bool,
    ) -> None:
        super().__init__(
            count=len(documents), batch=batch, length=length, seed=seed, shuffle=shuffle
        )
        self.documents, self.corruption = documents, corruption
        self.cloze, self.gaps = cloze, gaps
        self.mask, self.space = mask, space

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """A random example from document `index`."""
        document, gaps = self.documents[index], self.gaps[index] if self.cloze else None
        if self.cloze and gaps and rng.random() < self.cloze.probability:
            return self.cloze(document, gaps, self.mask, rng)
        sequence = self.corruption(document, self.mask, rng, space=self.space)
        return sequence[:-1], sequence[1:]


class QuestionExamples(Examples):
    """Questions with their answers."""

    def __init__(
        self,
        pairs: list[tuple[str, str]],
        vocabulary: Vocabulary,
        *,
        batch: int,
        length: int,
        seed: int,
        shuffle: bool,
    ) -> None:
        super().__init__(count=len(pairs), batch=batch, length=length, seed=seed, shuffle=shuffle)
        self.examples = [
            question_example(vocabulary.encode(q), vocabulary.encode(a), vocabulary.mask)
            for q, a in pairs
        ]

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """Pair number `index`, without random choices."""
        return self.examples[index]


class Together(Examples):
    """Two sets of examples in one: an epoch has all of both, shuffled if the first set is."""

    def __init__(self, first: Examples, second: Examples) -> None:
        super().__init__(
            count=first.count + second.count, batch=first.batch, length=first.length,
            seed=first.seed, shuffle=first.shuffle,
        )  # fmt: skip
        self.first, self.second = first, second

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """Example `index` of the first set, or, after its last one, of the second set."""
        if index < self.first.count:
            return self.first.example(index, rng)
        return self.second.example(index - self.first.count, rng)


class TextExamples(Examples):
    """Windows of one long text. Each token is predicted from those before it in the window.

    An epoch has as many windows as fit the text side by side, but they start at random places.
    """

    def __init__(self, ids: np.ndarray, context: int, *, batch: int, seed: int) -> None:
        count = max(1, (len(ids) - 1) // context)
        super().__init__(count=count, batch=batch, length=context, seed=seed, shuffle=True)
        self.ids, self.context = ids, context

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """A window that starts at a random place; `index` is ignored."""
        start = int(rng.integers(0, len(self.ids) - self.context))
        window = self.ids[start : start + self.context + 1]
        return window[:-1], window[1:]
