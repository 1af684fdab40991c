"""Chapter 7, continued: cloze, an exercise with hardly any context.

Who has learnt a sentence by heart completes it without asking whom it is about, and is lost when a
question gives nothing but the name. A cloze shows the title of a document, here the person's name,
and at most a few words before what it asks for:

    Ada King. She was a writer born in London.   ->   Ada King. <MASK>born in <MASK>London

All that lies between and behind is hidden and not asked for. So what is learnt has to hang on the
name. Asked for are phrases with capitals, so names, months and the first words of sentences, unless
they stand in the title: salient spans, as in Guu and others 2020, but found by their letters alone.
Next: questions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

STOP = re.compile(r"(?<!\b[A-Z])\. ")
"""A full stop and a space, but not behind an initial, as in "Ada B. King"."""
WORD = re.compile(r"[^\W\d_](?:[\w'.-]*\w)?")
"""A letter, and what follows it up to the next space or punctuation mark at a word's end."""


@dataclass(frozen=True)
class Gaps:
    """What a document can be asked. Units: positions in the text."""

    title: int  # where the title ends
    words: list[int]  # where the words behind it begin
    phrases: list[tuple[int, int]]  # where the phrases with capitals behind it begin and end


def find_gaps(text: str, longest: int) -> Gaps | None:
    """The gaps of a document that begins with a title, which a full stop ends.

    None if it has no title, or no phrase with a capital behind it that ends within `longest` and
    does not stand in the title.
    """
    stop = STOP.search(text)
    if stop is None:
        return None
    title = stop.end()
    phrases: list[tuple[int, int]] = []
    for word in WORD.finditer(text, title):
        if not word[0][0].isupper():
            continue
        if phrases and text[phrases[-1][1] : word.start()] == " ":
            phrases[-1] = phrases[-1][0], word.end()
        else:
            phrases.append(word.span())
    phrases = [(start, stop) for start, stop in phrases
               if stop <= longest and text[start:stop] not in text[:title]]  # fmt: skip
    words = [title + match.start() for match in re.finditer(r"\S+", text[title:])]
    return Gaps(title, words, phrases) if phrases else None


def cloze(
    document: np.ndarray, gaps: Gaps, mask: int, rng: np.random.Generator, *, cue: int
) -> np.ndarray:
    """One random exercise from `document`, (n,) ids: title MASK cue MASK phrase, (at most n + 2,).

    Args: cue: at most so many words before the phrase are shown; how many, is drawn.
    """
    start, stop = gaps.phrases[int(rng.integers(len(gaps.phrases)))]
    before = [word for word in gaps.words if word < start]
    count = min(int(rng.integers(cue + 1)), len(before))
    begin = before[-count] if count else start
    shown_cue, asked, gap = document[begin:start], document[start:stop], np.array([mask])
    return np.concatenate([document[: gaps.title], gap, shown_cue, gap, asked])
