"""Cloze: what can be asked, and that an exercise shows the title, cues and nothing else."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinyattn.data import Gaps, cloze_example, find_gaps
from tinyattn.data.batches import PAD

MASK = 1
ADA = (
    "Ada B. King. King was Ada B. She, of Rue d'Ulm (born 1815 in New York, U.S.), met Łódź 2 "
    "times. McX-Y"
)
WORDS = ["Ada", "de", "la", "Cruz", "St.", "(born", "1815", "London,", "É", "x", ".", "in"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def ids_of(text: str) -> np.ndarray:
    return np.array([ord(character) for character in text])


def text_of(ids: np.ndarray) -> str:
    return "".join("_" if i == MASK else chr(i) for i in ids)


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


@given(texts, st.integers(0, 5), st.integers(1, 4), st.integers(0, 9), st.integers(0, 2**32))
def test_an_exercise_is_a_title_cues_and_phrases(
    text: str, cue: int, asked: int, cut: int, seed: int
) -> None:
    document = f"Jo Li. {text} End {text}"
    longest = len(document) - cut
    gaps = find_gaps(document, longest)
    assume(gaps is not None)
    assert gaps is not None
    inputs, targets = cloze_example(
        ids_of(document), gaps, MASK, np.random.default_rng(seed), cue=cue, asked=asked,
        longest=longest,
    )  # fmt: skip
    assert inputs.shape == targets.shape and len(inputs) <= longest + 2
    said = text_of(np.append(inputs, targets[-1]))
    title, *questions, rest = re.split("_", said)
    assert title == "Jo Li. " and rest == "" and 2 <= len(questions) <= 2 * asked
    starts, at = set(), len(title)
    for shown, phrase in zip(questions[::2], questions[1::2], strict=True):
        starts |= {start for start, stop in gaps.phrases
                   if document[:stop].endswith(shown + phrase)}  # fmt: skip
        assert len(shown.split()) <= cue + 1  # what stands directly before, such as "("
        at += len(shown) + 1
        assert text_of(targets[at : at + len(phrase) + 1]) == phrase + "_"
        at += len(phrase) + 1
    assert len(starts) >= len(questions) / 2
    answers = [phrase + "_" for phrase in questions[1::2]]
    assert text_of(targets[targets != PAD]) == "".join(answers)


def test_every_phrase_and_every_length_of_cue_is_drawn() -> None:
    text = "Jo. a b C d E"
    gaps = find_gaps(text, len(text))
    assert gaps == Gaps(4, [4, 6, 8, 10, 12], [(8, 9), (12, 13)])
    rng, seen = np.random.default_rng(0), set()
    for _ in range(600):
        inputs, _ = cloze_example(ids_of(text), gaps, MASK, rng, cue=2, asked=2, longest=40)
        seen.add(text_of(inputs[4:]))
    first, second = ["_C", "b _C", "a b _C"], ["_E", "d _E", "C d _E"]
    pairs = [*product(first, second), *product(second, first)]
    assert seen == {f"_{asked}" for asked in (*first, *second, *(f"{a}_{b}" for a, b in pairs))}


def test_phrases_that_do_not_fit_are_left_out() -> None:
    text = "Jo. One Two, Three, Four"
    gaps = find_gaps(text, len(text))
    assert gaps is not None
    rng, counts = np.random.default_rng(0), set()
    for _ in range(100):
        inputs, targets = cloze_example(ids_of(text), gaps, MASK, rng, cue=0, asked=3, longest=16)
        assert len(inputs) <= 18
        counts.add(int((targets == MASK).sum()))
    assert counts == {1, 2}
