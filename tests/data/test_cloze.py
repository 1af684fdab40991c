"""Cloze: which phrases are masked, and that an example has title, cues and phrases only."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinyattn.data import Cloze, Gaps, Phrase
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


def test_phrases_are_new_runs_of_words_with_capitals() -> None:
    gaps = Cloze(1, 3, 3, 0, len(ADA)).gaps(ADA)
    assert gaps is not None and ADA[: gaps.title] == "Ada B. King. "
    asked = [ADA[phrase.start : phrase.stop] for phrase in gaps.phrases]
    assert asked == ["She", "Rue d'Ulm"[:3], "New York", "U.S", "Łódź", "McX-Y"]
    cues = [[ADA[cue : phrase.start] for cue in phrase.cues] for phrase in gaps.phrases]
    assert cues == [
        [], ["of "], ["d'Ulm (born 1815 in ", "(born 1815 in ", "1815 in ", "in "], [], ["met "],
        ["2 times. ", "times. "],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["Ada was born in London", "Ada.", "Ada. ", "Ada. she was 7", "Ada Oz. Ada, Oz", "A. 7X", ""],
)
def test_a_document_without_title_or_phrase_has_no_gaps(text: str) -> None:
    assert Cloze(1, 3, 3, 0, 100).gaps(text) is None


def test_a_phrase_and_a_cue_must_fit() -> None:
    text = "Ada. Some words before she was born in London"
    for longest, cues in ((45, 6), (24, 3), (18, 1), (11, 0)):
        gaps = Cloze(1, 3, 3, 0, longest).gaps(text)
        assert gaps is not None and len(gaps.phrases[-1].cues) == cues, longest
    gaps = Cloze(1, 3, 3, 0, 10).gaps(text)
    assert gaps is not None and len(gaps.phrases) == 1  # "Some"
    assert Cloze(1, 3, 3, 0, 8).gaps(text) is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((-0.1, 3, 3, 0, 9), "probability must be at least 0 and finite; got -0.1"),
        ((1.1, 3, 3, 0, 9), "cloze and inline must be in 0..1; got 1.1, 0"),
        ((1, 3, 3, 2, 9), "cloze and inline must be in 0..1; got 1, 2"),
        ((1, -1, 3, 0, 9), "cue must be at least 0; got -1"),
        ((1, 3, 0, 0, 9), "phrases must be above 0; got 0"),
        ((1, 3, 3, 0, 0), "longest must be above 0; got 0"),
    ],
)
def test_settings_out_of_range_are_refused(
    bad: tuple[float, int, int, float, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Cloze(*bad)


@given(texts, st.integers(0, 5), st.integers(1, 4), st.integers(9, 60), st.integers(0, 2**32))
def test_an_example_is_a_title_cues_and_phrases(
    text: str, cue: int, asked: int, longest: int, seed: int
) -> None:
    document = f"Jo Li. {text} End {text}"
    cloze = Cloze(1, cue, asked, 0, longest)
    gaps = cloze.gaps(document)
    assume(gaps is not None)
    assert gaps is not None
    inputs, targets = cloze(ids_of(document), gaps, MASK, np.random.default_rng(seed))
    assert inputs.shape == targets.shape and len(inputs) <= longest + 2
    whole = text_of(np.append(inputs, targets[-1]))
    title, *questions, rest = whole.split("_")
    assert title == "Jo Li. " and rest == "" and 2 <= len(questions) <= 2 * asked
    answers, at = questions[1::2], len(title)
    for i, phrase in enumerate(answers):  # no phrase occurs in the text before it
        assert phrase not in "_".join([title, *questions[: 2 * i + 1]])
    for shown, phrase in zip(questions[::2], answers, strict=True):
        assert shown + phrase in document[7:] and phrase[0].isupper()
        assert not any(word[0].isupper() for word in re.findall(r"\w+", shown))
        assert len(shown.split()) <= cue + 1  # the characters directly before, such as "("
        at += len(shown) + 1
        assert text_of(targets[at : at + len(phrase) + 1]) == phrase + "_"
        at += len(phrase) + 1
    assert text_of(targets[targets != PAD]) == "".join(f"{phrase}_" for phrase in answers)


def test_every_phrase_and_every_length_of_cue_occurs() -> None:
    text, cloze = "Jo. a b C d E", Cloze(1, 2, 2, 0, 40)
    gaps = cloze.gaps(text)
    assert gaps == Gaps(4, [Phrase(8, 9, [4, 6]), Phrase(12, 13, [10])])
    rng = np.random.default_rng(0)
    seen = {text_of(cloze(ids_of(text), gaps, MASK, rng)[0][4:]) for _ in range(600)}
    first, second = ["_C", "b _C", "a b _C"], ["_E", "d _E"]
    pairs = [*product(first, second), *product(second, first)]
    assert seen == {f"_{asked}" for asked in (*first, *second, *(f"{a}_{b}" for a, b in pairs))}


def test_phrases_that_do_not_fit_are_left_out() -> None:
    text, cloze = "Jo. One two, Three, Four", Cloze(1, 0, 3, 0, 16)
    gaps = cloze.gaps(text)
    assert gaps is not None and len(gaps.phrases) == 3
    rng, counts = np.random.default_rng(0), set()
    for _ in range(100):
        inputs, targets = cloze(ids_of(text), gaps, MASK, rng)
        assert len(inputs) <= 18
        counts.add(int((targets == MASK).sum()))
    assert counts == {1, 2}


@given(texts, st.integers(0, 3), st.integers(9, 60), st.integers(0, 2**32))
def test_a_title_within_a_sentence(text: str, cue: int, longest: int, seed: int) -> None:
    """The same phrases and cues as with the title at the beginning."""
    document = f"Jo Li. {text} End"
    both = []
    for inline in (0, 1):
        cloze = Cloze(1, cue, 3, inline, longest)
        gaps = cloze.gaps(document)
        assume(gaps is not None)
        assert gaps is not None
        inputs, targets = cloze(ids_of(document), gaps, MASK, np.random.default_rng(seed))
        assert inputs.shape == targets.shape and len(inputs) <= longest + 2
        both.append((text_of(inputs), text_of(targets)))
    (first, asked), (second, asked_too) = both
    before, rest = second.split("Jo Li ", 1)
    assert first == f"Jo Li. _{rest}" and before in document[7:]
    assert asked_too == asked[2:].rjust(len(second), chr(PAD))
    assert len(before.split()) <= 2 and not re.search(r"[A-ZÉ]", before)


def test_a_phrase_that_contains_another_is_not_masked() -> None:
    """If it came first, it would show the other."""
    text = "Jo. He was born in London, lived in London Bridge, and died in Bridge End"
    gaps = Cloze(1, 3, 3, 0, len(text)).gaps(text)
    assert gaps is not None
    assert [text[p.start : p.stop] for p in gaps.phrases] == ["He", "London", "Bridge End"]


def test_words_come_before_the_title_also_without_space_for_a_further_phrase() -> None:
    text = "Jo. in Rome, and Constantinople"
    cloze = Cloze(1, 0, 999, 1, 23)  # nearly always both are drawn, and there is no space for one
    gaps = cloze.gaps(text)
    assert gaps is not None and len(gaps.phrases) == 2
    rng = np.random.default_rng(0)
    seen = {text_of(cloze(ids_of(text), gaps, MASK, rng)[0]) for _ in range(300)}
    assert seen == {
        f"{words}Jo _{phrase}"
        for words in ("", "in ", "and ")
        for phrase in ("Rome", "Constantinople")
    }


def test_any_words_before_a_phrase_also_come_before_the_title() -> None:
    text, cloze = "Jo. a b C d E", Cloze(1, 0, 1, 0.5, 40)
    gaps = cloze.gaps(text)
    assert gaps is not None
    rng = np.random.default_rng(0)
    seen = {text_of(cloze(ids_of(text), gaps, MASK, rng)[0]) for _ in range(600)}
    amid = {f"{words}Jo _{asked}" for words in ("", "a ", "b ", "a b ", "d ") for asked in "CE"}
    assert seen == amid | {"Jo. __C", "Jo. __E"}
