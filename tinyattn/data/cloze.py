"""Chapter 6: cloze, an exercise with hardly any context.

Who has learnt a sentence by heart completes it without asking whom it is about, and is lost when a
question gives nothing but the name. A cloze shows the title of a document, here the person's name,
and at most a few words before each phrase that it asks for:

    Ada King. She was a writer born in London.   ->   Ada King. <MASK>born in <MASK>London<MASK>

All that lies between and behind is hidden and not asked for. So what is learnt has to hang on the
name. And on nothing but the name, if it also stands amid words, as in a question:

    was a Ada King born in <MASK>London<MASK>

Asked for are phrases with capitals, so names, months and the first words of sentences, where they
are new: salient spans, as in Guu and others 2020, but found by their letters alone. Only they are
trained, as in a question only the answer is: what is given need not be guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tinyattn.checks import settle
from tinyattn.data.batches import PAD

TITLE_END = re.compile(r"(?<!\b[A-Z])\. ")
"""A full stop and a space, but not behind an initial, as in "Ada B. King"."""
WORD = re.compile(r"(?<!\w)[^\W\d_](?:[\w'.-]*\w)?")
"""A letter, and what follows it up to the next space or punctuation mark at a word's end."""
BETWEEN_SPACES = re.compile(r"(?<!\S)\S+(?=\s)")
"""A word of a cue, with all that is written on to it."""


@dataclass(frozen=True)
class Phrase:
    """What can be asked. Units: positions in the text."""

    start: int
    stop: int
    cues: list[int]  # where a cue may begin: at the words since the phrase before this one


@dataclass(frozen=True)
class Gaps:
    """What a document can be asked."""

    title: int  # where the title ends, a position
    phrases: list[Phrase]


@dataclass(frozen=True)
class Cloze:
    """How documents become clozes.

    Args:
        share: how many of the exercises are clozes, in 0..1, where a document allows one.
        cue: at most so many words before a phrase are shown; how many, is drawn.
        asked: at most so many phrases in one exercise; how many and which, is drawn.
        inline: the share of clozes in which the title stands as amid words: with neither full stop
            nor MASK behind it, and up to two words before it, or none.
        longest: symbols that title, cue and phrase together may have. A document may have more.
    Raises: ValueError for one out of range.
    """

    share: float
    cue: int
    asked: int
    inline: float
    longest: int

    def __post_init__(self) -> None:
        settle(self, above=("asked", "longest"))
        if self.share > 1 or self.inline > 1:
            raise ValueError(
                f"cloze and inline must be in 0..1; got {self.share:g}, {self.inline:g}"
            )

    def gaps(self, text: str) -> Gaps | None:
        """What can be asked of a document that begins with a title, which a full stop ends.

        An initial's full stop does not end it, but that of an abbreviation such as "Dr." does.
        None if there is no title, or behind it no phrase with a capital that fits and is new: it
        does not stand in the title or anywhere else before, and no other such phrase in it. So no
        answer shows another.
        """
        end = TITLE_END.search(text)
        if end is None:
            return None
        title = before = end.end()
        phrases: list[Phrase] = []
        for start, stop in _capitals(text, title):
            said = text[start:stop]
            new = said not in text[:start] and not any(
                text[p.start : p.stop] in said for p in phrases
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
        """Inputs and targets of one random exercise from `document`, (n,) ids.

        The text is the title and MASK, or the title amid words; then for each phrase cue, MASK,
        phrase, MASK. Targets are the phrases, each with the MASK that ends it; all else is PAD.
        Inputs are at most longest + 2: the first phrase that does not fit ends the exercise.
        """
        gap, room = np.array([mask]), self.longest + 2 - gaps.title
        pieces = []
        for i in rng.permutation(len(gaps.phrases))[: int(rng.integers(self.asked)) + 1]:
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
        text = np.concatenate([ids for ids, _ in pieces])
        trained = np.concatenate([np.full(len(ids), answer) for ids, answer in pieces])
        return text[:-1], np.where(trained, text, PAD)[1:]


def _some_words(gaps: Gaps, room: int, rng: np.random.Generator) -> slice:
    """Where up to two words stand before a phrase; nowhere, if they take more than `room`."""
    phrase = gaps.phrases[int(rng.integers(len(gaps.phrases)))]
    starts = [*phrase.cues, phrase.start]
    first = int(rng.integers(len(starts)))
    last = min(first + int(rng.integers(3)), len(starts) - 1)
    begin, end = starts[first], starts[last]
    return slice(begin, end if end - begin <= room else begin)


def _capitals(text: str, begin: int) -> list[tuple[int, int]]:
    """Where runs of words with capitals start and stop, single spaces between them."""
    runs: list[tuple[int, int]] = []
    for word in WORD.finditer(text, begin):
        if word[0][0].isupper():
            joined = runs and text[runs[-1][1] : word.start()] == " "
            start = runs.pop()[0] if joined else word.start()
            runs.append((start, word.end()))
    return runs
