"""The benchmark that asks with a title and a few words, on a tiny run."""

import runpy
import sys
from pathlib import Path

import pytest

from tinyattn.data import World
from tinyattn.tasks.evaluation import answer, save_predictions
from tinyattn.tasks.runs import PREDICTIONS, Trained
from tinyattn.training import checkpoint
from tinyattn.training.loop import CHECKPOINT

SCRIPT = Path(__file__).parents[2] / "benchmarks/cues.py"
ADA = "Ada B. Bren. The Londoner Ada Bren (born 1815 in London, England) wrote."


def test_the_lead_is_what_stands_between_the_title_and_the_place() -> None:
    title_and_lead = runpy.run_path(str(SCRIPT))["title_and_lead"]
    documents = ["Ada. Of London.", ADA, "Ada B. Bren. In London."]
    told = ("Ada B. Bren. ", "The Londoner Ada Bren (born 1815 in ")  # whole words of the first
    assert title_and_lead("Ada B. Bren", "London", documents) == told
    assert title_and_lead("Ada B. Bren", "Oz", documents) is None
    assert title_and_lead("Ada Bren", "London", documents) is None


@pytest.mark.parametrize(
    ("lead", "cues"),
    [
        ("She (born in ", ["", "in ", "(born in ", "She (born in ", "She (born in "]),
        ("Born (", ["", "Born (", "Born ("]),  # what is written on to the place is no word
        ("", ["", ""]),
    ],
)
def test_so_many_words_are_shown(lead: str, cues: list[str]) -> None:
    shown = runpy.run_path(str(SCRIPT))["shown"]
    assert [shown("Ada. ", lead, words) for words in range(len(cues))] == [
        f"Ada. \u2047{cue}" for cue in cues
    ]


def test_a_tiny_run_is_counted(
    people: World, answering: Trained, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of the last person nothing is told, and every other question was answered right."""
    checkpoint.save(tmp_path / CHECKPOINT, answering.checkpoint.arrays, answering.about)
    said = [place if i % 2 else "nowhere" for i, (_, place) in enumerate(people.dev)]
    save_predictions(tmp_path / PREDICTIONS, said)
    names = [question[len("Where was ") : -len(" born?")] for question, _ in people.dev]
    told = list(zip(names, [place for _, place in people.dev], strict=True))[:-1]
    text = tmp_path / "corpus.txt"
    text.write_text("".join(f"{name}. They come from {place}.\n" for name, place in told))
    pairs = people.save(tmp_path / "world") / "birth_dev.tsv"
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *map(str, (text, pairs, tmp_path, tmp_path))])
    runpy.run_path(str(SCRIPT), run_name="__main__")

    lines = [f"{len(told)} of {len(names)} people have a document that names the place"]
    for words, cue in enumerate(["", "from ", "come from ", "They come from "]):
        answers = answer(answering, [f"{name}. \u2047{cue}" for name, _ in told])
        known = [a == place for a, (_, place) in zip(answers, told, strict=True)]
        right = [i % 2 for i in range(len(told))]
        both = sum(k and r for k, r in zip(known, right, strict=True))
        lines.append(f"{words} words: {sum(known)} known, of whom the question found {both}; "
                     f"of the {len(told) - sum(known)} others, {sum(right) - both}")  # fmt: skip
    assert capsys.readouterr().out.splitlines() == lines
