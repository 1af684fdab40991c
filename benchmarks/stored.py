"""What is stored, and what a question finds: python benchmarks/stored.py s1 runs/s1 runs/s1-tuned

Its arguments are the folder of a made-up world with one sentence about each person, a run
pretrained on it, and that run, finetuned and evaluated on birth_dev.tsv. For each held-out person,
the prompt of the pretrained model is the person's sentence with MASK in place of the birthplace. A
person is known if the model generates the place, and found if the finetuned model answered the
question with it. Sentences that name the person first, or the place first, are counted apart. It
takes some seconds on one core.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tinyattn.data import read_pairs
from tinyattn.data.vocabulary import MASK_CHARACTER
from tinyattn.tasks import answer, load_run
from tinyattn.tasks.runs import PREDICTIONS


def name_in(question: str) -> str:
    """The name of the person that the question is about."""
    return question.removeprefix("Where was ").removesuffix(" born?")


def sentence_about(name: str, lines: Sequence[str]) -> str:
    """The first line that contains this name."""
    return next(line for line in lines if name in line)


def first_named(name: str, place: str, line: str) -> str:
    """Which comes first in the line, "name" or "place"."""
    return "name" if line.index(name) < line.index(place) else "place"


def counted(
    people: Sequence[tuple[str, str]],
    sentences: Sequence[str],
    ends: Sequence[str],
    answers: Sequence[str],
) -> dict[str, tuple[int, int, int]]:
    """The numbers of people, of known places and of found places, by what comes first.

    Args:
        people: name and place of each.
        sentences: the sentence about each.
        ends: what a model generates for MASK in it.
        answers: the answer of a model to the question.
    """
    rows = {"name": [0, 0, 0], "place": [0, 0, 0]}
    for (name, place), line, end, answered in zip(people, sentences, ends, answers, strict=True):
        row = rows[first_named(name, place, line)]
        for i, counts in enumerate((True, place in end, place == answered)):
            row[i] += counts
    return {first: (row[0], row[1], row[2]) for first, row in rows.items()}


def main() -> None:
    """Print a line for each order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", type=Path, help="folder with corpus.txt and birth_dev.tsv")
    parser.add_argument("pretrained", type=Path, help="run folder")
    parser.add_argument("finetuned", type=Path, help="run folder, evaluated")
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.world / "birth_dev.tsv")
    people = [(name_in(question), str(place)) for question, place in pairs]
    lines = (arguments.world / "corpus.txt").read_text("utf-8").splitlines()
    sentences = [sentence_about(name, lines) for name, _ in people]
    gaps = [line.replace(place, MASK_CHARACTER)
            for line, (_, place) in zip(sentences, people, strict=True)]  # fmt: skip
    ends = answer(load_run(arguments.pretrained), gaps)
    answers = (arguments.finetuned / PREDICTIONS).read_text("utf-8").splitlines()
    for first, (number, known, found) in counted(people, sentences, ends, answers).items():
        print(f"{first} first: {known} of {number} known, {found} found by the question")


if __name__ == "__main__":
    main()
