"""Chapter 6: cloze examples, which have hardly any context.

A model that knows a sentence by heart can complete it without using the name in it, and fails when
a question contains only the name. A cloze contains the title of a document, here the person's name,
and at most a few words before each phrase that it asks for:

    Ada King. She was a writer born in London.   ->   Ada King. <MASK>born in <MASK>London<MASK>

All other text of the document is left out. So the model has to learn the phrases from the name.
In some clozes the name is among other words, as in a question, so that only the name helps:

    was a Ada King born in <MASK>London<MASK>

A cloze asks for words with capital letters (names, months, first words of sentences) where they
occur first. These are salient spans, as in Guu and others 2020, but found by their letters alone.
Only these phrases are targets, as only the answer of a question is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tinyattn.checks import settle
from tinyattn.data.batches import PAD

TITLE_END = re.compile(r"(?<!\b[A-Z])\. ")
"""A full stop and a space, except after an initial, as in "Ada B. King"."""
WORD = re.compile(r"(?<!\w)[^\W\d_](?:[\w'.-]*\w)?")
"""A word from its first letter to its last, including the punctuation marks inside it."""
BETWEEN_SPACES = re.compile(r"(?<!\S)\S+(?=\s)")
"""A word of a cue, with its punctuation marks."""


@dataclass(frozen=True)
class Phrase:
    """A phrase that a cloze can ask for. Units: positions in the document."""

    start: int
    stop: int
    cues: list[int]  # where a cue may begin: at each word after the previous phrase


@dataclass(frozen=True)
class Gaps:
    """The title of a document, and the phrases that a cloze can ask for."""

    title: int  # position where the title ends
    phrases: list[Phrase]


@dataclass(frozen=True)
class Cloze:
    """How documents become clozes.

    Args:
        probability: probability that an example is a cloze, if the document allows one, in 0..1.
        cue: largest number of words shown before a phrase; the number is random.
        phrases: largest number of phrases in one example; their number and choice are random.
        inline: probability that the title of a cloze is among other words, in 0..1: without full
            stop and MASK after it, and with up to two words before it.
        longest: largest number of tokens in title, cue and phrase together. A token is one
            character here. A document may be longer.
    Raises: ValueError for a value out of range.
    """

    probability: float
    cue: int
    phrases: int
    inline: float
    longest: int

    def __post_init__(self) -> None:
        settle(self, above=("phrases", "longest"))
        if self.probability > 1 or self.inline > 1:
            raise ValueError(
                f"cloze and inline must be in 0..1; got {self.probability:g}, {self.inline:g}"
            )

    def gaps(self, text: str) -> Gaps | None:
        """The phrases that a cloze can ask for. A document begins with a title and a full stop.

        An initial's full stop does not end the title, but that of an abbreviation such as "Dr."
        does. A phrase has capital letters, fits in `longest` and is new: it does not occur earlier
        in the document, and contains no earlier phrase. So no answer reveals another.

        Returns: None if there is no title, or no such phrase after it.
        """
        end = TITLE_END.search(text)
        if end is None:
            return None
        title = before = end.end()
        phrases: list[Phrase] = []
        for start, stop in _capitals(text, title):
            found = text[start:stop]
            new = found not in text[:start] and not any(
                text[p.start : p.stop] in found for p in phrases
            )
            if new and title + stop - start <= self.longest:
                words = [word.start() for word in BETWEEN_SPACES.finditer(text, before, start)]
                cues = [word for word in words if title + stop - word <= self.longest]
                phrases.append(Phrase(start, stop, cues))
            before = stop
        return Gaps(title, phrases) if phrases else None

    def __call__(
        self, document: np.ndarray, gaps: Gaps, mask: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of one random example from `document`, (n,) ids.

        The sequence is the title and MASK, or the title among other words; then for each phrase:
        cue, MASK, phrase, MASK. The targets are the phrases, each with the MASK that ends it; all
        other targets are PAD. There are at most longest + 2 inputs: the first phrase that does not
        fit ends the example.
        """
        gap, room = np.array([mask]), self.longest + 2 - gaps.title
        pieces = []
        for i in rng.permutation(len(gaps.phrases))[: int(rng.integers(self.phrases)) + 1]:
            phrase = gaps.phrases[i]
            shown = min(int(rng.integers(self.cue + 1)), len(phrase.cues))
            begin = phrase.cues[-shown] if shown else phrase.start
            needed = phrase.stop - begin + 2
            if needed > room:
                break
            room -= needed
            pieces += [(document[begin : phrase.start], False), (gap, False)]
            pieces += [(document[phrase.start : phrase.stop], True), (gap, True)]
        title = document[: gaps.title]
        opening = [title, gap]
        if rng.random() < self.inline:  # without its full stop
            opening = [document[_some_words(gaps, room, rng)], title[:-2], title[-1:]]
        pieces = [*((ids, False) for ids in opening), *pieces]
        sequence = np.concatenate([ids for ids, _ in pieces])
        trained = np.concatenate([np.full(len(ids), answer) for ids, answer in pieces])
        return sequence[:-1], np.where(trained, sequence, PAD)[1:]


def _some_words(gaps: Gaps, room: int, rng: np.random.Generator) -> slice:
    """The slice of up to two words before a phrase; empty if they need more than `room` tokens."""
    phrase = gaps.phrases[int(rng.integers(len(gaps.phrases)))]
    starts = [*phrase.cues, phrase.start]
    first = int(rng.integers(len(starts)))
    last = min(first + int(rng.integers(3)), len(starts) - 1)
    begin, end = starts[first], starts[last]
    return slice(begin, end if end - begin <= room else begin)


def _capitals(text: str, begin: int) -> list[tuple[int, int]]:
    """(start, stop) of each run of capitalized words that are separated by single spaces."""
    runs: list[tuple[int, int]] = []
    for word in WORD.finditer(text, begin):
        if word[0][0].isupper():
            joined = runs and text[runs[-1][1] : word.start()] == " "
            start = runs.pop()[0] if joined else word.start()
            runs.append((start, word.end()))
    return runs
