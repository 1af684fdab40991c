"""Chapter 5: span corruption, the objective of pretraining.

Cut a span out of a sentence, put MASK in its place, and append the span at the end:

    Ada was born in Lozumb.   ->   Ada was <MASK> Lozumb.<MASK>born in

To predict the span well, a model has to remember which facts belong to which name. Every token is
a target, not only the tokens of the span. So a model also learns to generate the other tokens.
Next: what a task is (tasks/task.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyattn.checks import settle


@dataclass(frozen=True)
class Corruption:
    """How a document becomes a training example.

    A document is first truncated to a random length L, then split into prefix, masked span and
    suffix, and becomes prefix MASK suffix MASK span. The defaults are those of A5 (assignment
    5 of Stanford CS224N) with context 128: L is uniform over 4..112, and the span's length uniform
    over 1..2·⌊L/4⌋-1, whose mean is L/4.

    Args:
        longest: the largest length after truncation.
        truncate: the probability that L is random; otherwise L is `longest`. A5 uses 1.
        shortest: the smallest random L.
        words: if above 0, the span is 1 to `words` whole words instead. A name or a place is then
            often missing as a whole, so a model cannot guess it from its beginning.
    Units: lengths in tokens, which are characters.
    """

    longest: int = 112
    truncate: float = 1.0
    shortest: int = 4
    words: int = 0

    def __post_init__(self) -> None:
        settle(self, above=("shortest",))  # checks types; no field below 0, `shortest` above 0
        if self.longest < self.shortest:
            raise ValueError(
                f"Corruption: shortest must be in 1..longest; got {self.shortest}, {self.longest}"
            )
        if self.truncate > 1:
            raise ValueError(f"Corruption: truncate must be in 0..1; got {self.truncate}")

    def __call__(
        self, document: np.ndarray, mask: int, rng: np.random.Generator, *, space: int = -1
    ) -> np.ndarray:
        """One random example from `document`, (n,) ids -> (at most longest + 2,) ids.

        Args: space: the id of the space between words.
        """
        length = self.longest
        if self.truncate == 1 or rng.random() < self.truncate:
            length = int(rng.integers(self.shortest, self.longest + 1))
        ids = document[:length]
        start, stop = self._some_words(ids, space, rng) if self.words else self._span(ids, rng)
        return np.concatenate([ids[:start], [mask], ids[stop:], [mask], ids[start:stop]])

    def _span(self, ids: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
        """Where a span of random length begins and ends."""
        length = min(int(rng.integers(1, max(2, 2 * (len(ids) // 4)))), len(ids))
        start = int(rng.integers(0, len(ids) - length + 1))
        return start, start + length

    def _some_words(self, ids: np.ndarray, space: int, rng: np.random.Generator) -> tuple[int, int]:
        """Where a span of whole words begins and ends."""
        spaces = np.flatnonzero(ids == space)
        starts, stops = np.append(0, spaces + 1), np.append(spaces, len(ids))
        count = int(rng.integers(1, min(self.words, len(starts)) + 1))
        first = int(rng.integers(0, len(starts) - count + 1))
        return int(starts[first]), int(stops[first + count - 1])
