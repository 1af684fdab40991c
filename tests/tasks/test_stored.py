"""The benchmark that counts what is stored and what is found, on a tiny run."""

import runpy
import sys
from pathlib import Path

import pytest

from tinyattn.data import World
from tinyattn.tasks.evaluation import answer, save_predictions
from tinyattn.tasks.runs import PREDICTIONS, Trained
from tinyattn.training import checkpoint
from tinyattn.training.loop import CHECKPOINT

SCRIPT = Path(__file__).parents[2] / "benchmarks/stored.py"


def test_counts_by_what_was_told_first() -> None:
    counted = runpy.run_path(str(SCRIPT))["counted"]
    people = [("Ada Bren", "Oz"), ("Ivo Kell", "Oz"), ("Mona Tarv", "Lund"), ("Suri Pag", "Lund")]
    told = ["Ada Bren was born in Oz.", "Oz is the birthplace of Ivo Kell.",
            "Mona Tarv comes from Lund.", "In Lund was born Suri Pag."]  # fmt: skip
    rows = counted(people, told, ["Oz.", "Lund", "Lund.", "in Lund"], ["Lund", "Oz", "Lund", ""])
    assert rows == {"name": (2, 2, 1), "place": (2, 1, 1)}


def test_a_tiny_run_is_counted(
    people: World, answering: Trained, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Here one model is shown the sentences, and every other question was answered right."""
    checkpoint.save(tmp_path / CHECKPOINT, answering.checkpoint.arrays, answering.about)
    said = [place if i % 2 else "nowhere" for i, (_, place) in enumerate(people.dev)]
    save_predictions(tmp_path / PREDICTIONS, said)
    monkeypatch.setattr(
        sys, "argv", [SCRIPT.name, str(people.save(tmp_path / "world")), *[str(tmp_path)] * 2]
    )
    runpy.run_path(str(SCRIPT), run_name="__main__")

    rows = {"name": [0, 0, 0], "place": [0, 0, 0]}
    for (question, place), right in zip(people.dev, said, strict=True):
        name = question[len("Where was ") : -len(" born?")]
        line = next(line for line in people.corpus.splitlines() if name in line)
        row = rows["name" if line.index(name) < line.index(place) else "place"]
        end = answer(answering, [line.replace(place, answering.vocabulary.characters[1])])[0]
        for i, one in enumerate((place in end, True, place == right)):
            row[i] += one
    assert capsys.readouterr().out == "".join(
        f"{first} first: {known} of {number} known, {found} found by the question\n"
        for first, (known, number, found) in rows.items()
    )
