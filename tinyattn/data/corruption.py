"""Chapter 5: span corruption, the exercise of pretraining.

Cut a span out of a sentence, put MASK in its place, and ask for the span at the end:

    Ada was born in Lozumb.   ->   Ada was <MASK> Lozumb.<MASK>born in

A model that gets good at this has to remember what is written about whom. All symbols are trained,
not the span alone, so it learns to write the rest of the sentence as well. Next: what a task is
(tasks/task.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyattn.checks import settle


@dataclass(frozen=True)
class Corruption:
    """How documents are cut.

    A document is first truncated to a random length L, then split into prefix, masked span and
    suffix, and becomes prefix MASK suffix MASK span. The defaults are A5's: with block 128, L is
    uniform over 4..112, and the span's length uniform over 1..2·⌊L/4⌋-1, whose mean is L/4.

    Args:
        longest: no document is longer than this after truncation.
        truncate: the chance that a document is cut to a random length at all (1 in A5).
        shortest: the shortest truncation.
        words: if above 0, the span is 1 to `words` whole words instead. A name or a place is then
            often missing as a whole and can only be known, not completed from its beginning.
    Units: lengths in symbols.
    """

    longest: int = 112
    truncate: float = 1.0
    shortest: int = 4
    words: int = 0

    def __post_init__(self) -> None:
        settle(self, above=("shortest",))
        if self.longest < self.shortest:
            raise ValueError(
                f"Corruption: shortest must be in 1..longest; got {self.shortest}, {self.longest}"
            )
        if self.truncate > 1:
            raise ValueError(f"Corruption: truncate must be in 0..1; got {self.truncate}")

    def __call__(
        self, document: np.ndarray, mask: int, rng: np.random.Generator, *, space: int = -1
    ) -> np.ndarray:
        """One random exercise from `document`, (n,) ids -> (at most longest + 2,) ids.

        Args: space: the id that separates words.
        """
        length = self.longest
        if self.truncate == 1 or rng.random() < self.truncate:
            length = int(rng.integers(self.shortest, self.longest + 1))
        text = document[:length]
        start, stop = self._some_words(text, space, rng) if self.words else self._span(text, rng)
        return np.concatenate([text[:start], [mask], text[stop:], [mask], text[start:stop]])

    def _span(self, text: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
        """Where a span of random length begins and ends."""
        length = min(int(rng.integers(1, max(2, 2 * (len(text) // 4)))), len(text))
        start = int(rng.integers(0, len(text) - length + 1))
        return start, start + length

    def _some_words(
        self, text: np.ndarray, space: int, rng: np.random.Generator
    ) -> tuple[int, int]:
        """Where a few whole words begin and end."""
        spaces = np.flatnonzero(text == space)
        starts, stops = np.append(0, spaces + 1), np.append(spaces, len(text))
        count = int(rng.integers(1, min(self.words, len(starts)) + 1))
        first = int(rng.integers(0, len(starts) - count + 1))
        return int(starts[first]), int(stops[first + count - 1])
