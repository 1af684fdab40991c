"""Cloze: what can be asked, and that an exercise shows the title, a cue and nothing else."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import Gaps, cloze, find_gaps

MASK = 0
ADA = (
    "Ada B. King. King was Ada B. She, of Rue d'Ulm (born 1815 in New York, U.S.), met Łódź 2 "
    "times. McX-Y"
)
WORDS = ["Ada", "de", "la", "Cruz", "St.", "(born", "1815", "London,", "É", "x", ".", "in"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def ids_of(text: str) -> np.ndarray:
    return np.array([ord(character) for character in text])


def test_phrases_are_runs_of_words_with_capitals() -> None:
    gaps = find_gaps(ADA, len(ADA))
    assert gaps is not None and ADA[: gaps.title] == "Ada B. King. "
    asked = [ADA[start:stop] for start, stop in gaps.phrases]
    assert asked == ["She", "Rue d'Ulm"[:3], "New York", "U.S", "Łódź", "McX-Y"]
    assert [ADA[start:].split(" ")[0] for start in gaps.words] == ADA.split(" ")[3:]


@pytest.mark.parametrize("text", ["Ada was born in London", "Ada.", "Ada. ", "Ada. she was 7", ""])
def test_a_document_without_title_or_phrase_has_no_gaps(text: str) -> None:
    assert find_gaps(text, 100) is None


def test_what_is_cut_off_is_not_asked() -> None:
    text = "Ada. Born in London, later in Paris"
    for longest, asked in ((35, 3), (34, 2), (19, 2), (18, 1)):
        gaps = find_gaps(text, longest)
        assert gaps is not None and len(gaps.phrases) == asked
    assert find_gaps(text, 8) is None


@given(texts, st.integers(0, 5), st.integers(0, 2**32))
def test_an_exercise_is_title_cue_and_phrase(text: str, cue: int, seed: int) -> None:
    document = f"Jo Li. {text} End"
    gaps = find_gaps(document, len(document))
    assert gaps is not None
    exercise = cloze(ids_of(document), gaps, MASK, np.random.default_rng(seed), cue=cue)
    said = "".join(chr(i) if i else "_" for i in exercise)
    match = re.fullmatch(r"Jo Li\. _(.*)_([^_]+)", said)
    assert match is not None
    shown, asked = match.groups()
    assert asked[0].isupper() and shown + asked in document[7:]
    assert len(shown.split()) <= cue + 1  # what stands directly before the phrase, such as "("
    assert not shown or document[document.index(shown + asked) - 1] == " "


def test_every_phrase_and_every_length_of_cue_is_drawn() -> None:
    text = "Jo. a b C d E"
    gaps = find_gaps(text, len(text))
    assert gaps == Gaps(4, [4, 6, 8, 10, 12], [(8, 9), (12, 13)])
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        exercise = cloze(ids_of(text), gaps, MASK, rng, cue=2)
        seen.add("".join(chr(i) if i else "_" for i in exercise[4:]))
    assert seen == {"__C", "_b _C", "_a b _C", "__E", "_d _E", "_C d _E"}
