"""What is stored, and what a question finds: python benchmarks/stored.py s1 runs/s1 runs/s1-tuned

The folder of a made-up world with one sentence about each person, a run pretrained on it, and that
run finetuned and evaluated on birth_dev.tsv. The pretrained model is shown the sentence about each
held-out person with MASK where the place stood: does it know the place? The finetuned one was asked
where the person was born: did it find the place? Counted apart: sentences that name the person
first, and the place first. Some seconds on one core.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tinyattn.data import read_pairs
from tinyattn.data.vocabulary import MASK_CHARACTER
from tinyattn.tasks import answer, load_run
from tinyattn.tasks.runs import PREDICTIONS


def name_in(question: str) -> str:
    """Who is asked about."""
    return question.removeprefix("Where was ").removesuffix(" born?")


def sentence_about(name: str, lines: Sequence[str]) -> str:
    """The first with this name in it."""
    return next(line for line in lines if name in line)


def told_first(name: str, place: str, line: str) -> str:
    """Whether the name or the place comes first."""
    return "name" if line.index(name) < line.index(place) else "place"


def counted(
    people: Sequence[tuple[str, str]], told: Sequence[str], ends: Sequence[str], said: Sequence[str]
) -> dict[str, tuple[int, int, int]]:
    """How many people there are, how many places are known and how many found, by what came first.

    Args:
        people: name and place of each.
        told: the sentence about each.
        ends: what a model puts for MASK in it.
        said: what a model answers to the question.
    """
    rows = {"name": [0, 0, 0], "place": [0, 0, 0]}
    for (name, place), line, end, answered in zip(people, told, ends, said, strict=True):
        row = rows[told_first(name, place, line)]
        for i, counts in enumerate((True, place in end, place == answered)):
            row[i] += counts
    return {first: (row[0], row[1], row[2]) for first, row in rows.items()}


def main() -> None:
    """Print a line for each order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", type=Path, help="folder with corpus.txt and birth_dev.tsv")
    parser.add_argument("pretrained", type=Path, help="run")
    parser.add_argument("finetuned", type=Path, help="run, evaluated")
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.world / "birth_dev.tsv")
    people = [(name_in(question), str(place)) for question, place in pairs]
    lines = (arguments.world / "corpus.txt").read_text("utf-8").splitlines()
    told = [sentence_about(name, lines) for name, _ in people]
    gaps = [line.replace(place, MASK_CHARACTER)
            for line, (_, place) in zip(told, people, strict=True)]  # fmt: skip
    ends = answer(load_run(arguments.pretrained), gaps)
    said = (arguments.finetuned / PREDICTIONS).read_text("utf-8").splitlines()
    for first, (number, known, found) in counted(people, told, ends, said).items():
        print(f"{first} first: {known} of {number} known, {found} found by the question")


if __name__ == "__main__":
    main()
