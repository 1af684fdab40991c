"""Known with so many words, and found: python benchmarks/cues.py TEXT PAIRS PRETRAINED FINETUNED

A text whose documents begin with a title, the person's name; a TSV file of questions that no
finetuning saw; a run pretrained with clozes on the text, and that run finetuned and evaluated on
the questions. The pretrained model is shown each title and the last few words before the place:
does it say the place? Those whom it knows so and the others are counted apart: how many of them did
the question find? Some seconds on two cores.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from stored import name_in

from tinyattn.data import read_pairs
from tinyattn.data.cloze import BETWEEN_SPACES, TITLE_END
from tinyattn.data.vocabulary import MASK_CHARACTER
from tinyattn.tasks import answer, load_run
from tinyattn.tasks.runs import PREDICTIONS

MOST_WORDS = 3


def title_and_lead(name: str, place: str, documents: Sequence[str]) -> tuple[str, str] | None:
    """The title of the document about `name`, and what stands between it and the place, if any."""
    for document in documents:
        end = TITLE_END.search(document)
        if end and document[: end.end()] == f"{name}. ":
            found = re.compile(rf"\b{re.escape(place)}\b").search(document, end.end())
            return (document[: end.end()], document[end.end() : found.start()]) if found else None
    return None


def shown(title: str, lead: str, words: int) -> str:
    """Title, MASK and the last `words` words of the lead, which another MASK is to follow."""
    starts = [word.start() for word in BETWEEN_SPACES.finditer(lead)][-words:] if words else []
    return f"{title}{MASK_CHARACTER}{lead[starts[0] :] if starts else ''}"


def main() -> None:
    """Print a line for each number of words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="what was read in pretraining")
    parser.add_argument("pairs", type=Path, help="questions and places")
    parser.add_argument("pretrained", type=Path, help="run")
    parser.add_argument("finetuned", type=Path, help="run, evaluated on the questions")
    chosen = parser.parse_args()
    pairs = read_pairs(chosen.pairs)
    documents = chosen.text.read_text("utf-8").splitlines()
    said = (chosen.finetuned / PREDICTIONS).read_text("utf-8").splitlines()
    people = []
    for (question, place), answered in zip(pairs, said, strict=True):
        if told := title_and_lead(name_in(question), str(place), documents):
            people.append((*told, place, answered == place))
    print(f"{len(people)} of {len(pairs)} people have a document that names the place")
    model = load_run(chosen.pretrained)
    for words in range(MOST_WORDS + 1):
        answers = answer(model, [shown(title, lead, words) for title, lead, _, _ in people])
        found: dict[bool, list[bool]] = {True: [], False: []}
        for (_, _, place, right), answered in zip(people, answers, strict=True):
            found[answered == place].append(right)
        known, others = found[True], found[False]
        shown_words = f"{words} word{'s' * (words != 1)}"
        print(f"{shown_words}: {len(known)} known, of whom the question found {sum(known)}; "
              f"of the {len(others)} others, {sum(others)}")  # fmt: skip


if __name__ == "__main__":
    main()
