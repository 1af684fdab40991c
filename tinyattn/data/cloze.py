"""Chapter 7, continued: cloze, an exercise with hardly any context.

Who has learnt a sentence by heart completes it without asking whom it is about, and is lost when a
question gives nothing but the name. A cloze shows the title of a document, here the person's name,
and at most a few words before each phrase that it asks for:

    Ada King. She was a writer born in London.   ->   Ada King. <MASK>born in <MASK>London<MASK>

All that lies between and behind is hidden and not asked for. So what is learnt has to hang on the
name. Asked for are phrases with capitals, so names, months and the first words of sentences, unless
they stand in the title: salient spans, as in Guu and others 2020, but found by their letters alone.
Only they are trained, as in a question only the answer is: what is given need not be guessed.
Next: questions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tinyattn.data.batches import PAD

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


def cloze_example(
    document: np.ndarray,
    gaps: Gaps,
    mask: int,
    rng: np.random.Generator,
    *,
    cue: int,
    asked: int,
    longest: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one random exercise from `document`, (n,) ids.

    The text is the title and MASK, then for each phrase cue, MASK, phrase, MASK. Targets are the
    phrases, each with the MASK that ends it; all else is PAD.

    Args:
        cue: at most so many words before a phrase are shown; how many, is drawn.
        asked: at most so many phrases, in any order and none twice; how many, is drawn.
        longest: as of find_gaps; no inputs are longer than longest + 2. Phrases that would not fit
            are left out.
    """
    gap, room = np.array([mask]), longest + 2 - gaps.title
    pieces = [(document[: gaps.title], False), (gap, False)]
    for start, stop in rng.permutation(gaps.phrases)[: int(rng.integers(asked)) + 1]:
        before = [word for word in gaps.words if word < start]
        shown = min(int(rng.integers(cue + 1)), len(before))
        begin = before[-shown] if shown else start
        room -= stop - begin + 2
        if room < 0:
            break
        pieces += [(document[begin:start], False), (gap, False)]
        pieces += [(document[start:stop], True), (gap, True)]
    text = np.concatenate([ids for ids, _ in pieces])
    trained = np.concatenate([np.full(len(ids), answer) for ids, answer in pieces])
    return text[:-1], np.where(trained, text, PAD)[1:]
