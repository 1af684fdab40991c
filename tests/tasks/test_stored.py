"""The benchmark that counts what is stored and what is found, on a tiny run."""

from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import World
from tinyattn.tasks.evaluation import answer
from tinyattn.tasks.knowledge import Trained


def test_counts_by_what_comes_first(run_benchmark: Any) -> None:
    counted = run_benchmark("stored.py")["counted"]
    people = [("Ada Bren", "Oz"), ("Ivo Kell", "Oz"), ("Mona Tarv", "Lund"), ("Suri Pag", "Lund")]
    sentences = ["Ada Bren was born in Oz.", "Oz is the birthplace of Ivo Kell.",
                 "Mona Tarv comes from Lund.", "In Lund was born Suri Pag."]  # fmt: skip
    rows = counted(
        people, sentences, ["Oz.", "Lund", "Lund.", "in Lund"], ["Lund", "Oz", "Lund", ""]
    )
    assert rows == {"name": (2, 2, 1), "place": (2, 1, 1)}


def test_a_tiny_run_is_counted(
    people: World, answering: Trained, half_right: Path, run_benchmark: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Here one model completes the sentences and answers the questions."""
    run_benchmark("stored.py", people.save(half_right / "world"), half_right, half_right)

    rows = {"name": [0, 0, 0], "place": [0, 0, 0]}
    for number, (question, place) in enumerate(people.dev):
        name = question[len("Where was ") : -len(" born?")]
        line = next(line for line in people.corpus.splitlines() if name in line)
        row = rows["name" if line.index(name) < line.index(place) else "place"]
        end = answer(answering, [line.replace(place, answering.vocabulary.characters[1])])[0]
        for i, one in enumerate((place in end, True, number % 2)):
            row[i] += one
    assert capsys.readouterr().out == "".join(
        f"{first} first: {known} of {number} known, {found} found by the question\n"
        for first, (known, number, found) in rows.items()
    )
