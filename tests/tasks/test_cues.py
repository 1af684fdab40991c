"""The benchmark with prompts of a title and a few words, on a tiny run."""

from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import World
from tinyattn.tasks.evaluation import answer
from tinyattn.tasks.knowledge import Trained

ADA = "Ada B. Bren. The Londoner Ada Bren (born 1815 in London, England) wrote."


def test_the_lead_is_the_text_between_title_and_place(run_benchmark: Any) -> None:
    title_and_lead = run_benchmark("cues.py")["title_and_lead"]
    documents = ["Ada. Of London.", ADA, "Ada B. Bren. In London."]
    named = ("Ada B. Bren. ", "The Londoner Ada Bren (born 1815 in ")  # whole words only
    assert title_and_lead("Ada B. Bren", "London", documents) == named
    assert title_and_lead("Ada B. Bren", "Oz", documents) is None
    assert title_and_lead("Ada Bren", "London", documents) is None


@pytest.mark.parametrize(
    ("lead", "cues"),
    [
        ("She (born in ", ["", "in ", "(born in ", "She (born in ", "She (born in "]),
        ("Born (", ["", "Born (", "Born ("]),  # characters attached to the place are no word
        ("", ["", ""]),
    ],
)
def test_the_prompt_has_the_given_number_of_words(
    lead: str, cues: list[str], run_benchmark: Any
) -> None:
    shown = run_benchmark("cues.py")["shown"]
    assert [shown("Ada. ", lead, words) for words in range(len(cues))] == [
        f"Ada. \u2047{cue}" for cue in cues
    ]


def test_a_tiny_run_is_counted(
    people: World, answering: Trained, half_right: Path, run_benchmark: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Here one model gets the prompts and the questions. The last person is in no document."""
    names = [question[len("Where was ") : -len(" born?")] for question, _ in people.dev]
    named = list(zip(names, [place for _, place in people.dev], strict=True))[:-1]
    text = half_right / "corpus.txt"
    text.write_text("".join(f"{name}. They come from {place}.\n" for name, place in named))
    pairs = people.save(half_right / "world") / "birth_dev.tsv"
    run_benchmark("cues.py", text, pairs, half_right, half_right)

    lines = [f"{len(named)} of {len(names)} people have a document that names the place"]
    for words, cue in enumerate(["", "from ", "come from ", "They come from "]):
        answers = answer(answering, [f"{name}. \u2047{cue}" for name, _ in named])
        known = [a == place for a, (_, place) in zip(answers, named, strict=True)]
        right = [i % 2 for i in range(len(named))]
        both = sum(k and r for k, r in zip(known, right, strict=True))
        shown = "1 word" if words == 1 else f"{words} words"
        lines.append(f"{shown}: {sum(known)} known, of whom the question found {both}; "
                     f"of the {len(named) - sum(known)} others, {sum(right) - both}")  # fmt: skip
    assert capsys.readouterr().out.splitlines() == lines
