"""What is known from a few words, and what a question finds: benchmarks/cues.py

Its arguments are TEXT PAIRS PRETRAINED FINETUNED: a text whose documents begin with a title (the
name of a person); a TSV file of held-out questions; a run pretrained with clozes on the text; and
that run, finetuned and evaluated on the questions. The prompt of the pretrained model is each title
and the last few words before the place. A person is known if the model generates the place. The
program counts how many of these people, and of the others, the question found. It takes some
seconds on two cores.
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
    """The title of the document about `name`, and the text between title and place, if any."""
    for document in documents:
        end = TITLE_END.search(document)
        if end and document[: end.end()] == f"{name}. ":
            found = re.compile(rf"\b{re.escape(place)}\b").search(document, end.end())
            return (document[: end.end()], document[end.end() : found.start()]) if found else None
    return None


def shown(title: str, lead: str, words: int) -> str:
    """The prompt: title, MASK and the last `words` words of the lead; `answer` appends a MASK."""
    starts = [word.start() for word in BETWEEN_SPACES.finditer(lead)][-words:] if words else []
    return f"{title}{MASK_CHARACTER}{lead[starts[0] :] if starts else ''}"


def main() -> None:
    """Print a line for each number of words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="the text of pretraining")
    parser.add_argument("pairs", type=Path, help="questions and places")
    parser.add_argument("pretrained", type=Path, help="run")
    parser.add_argument("finetuned", type=Path, help="run, evaluated on the questions")
    chosen = parser.parse_args()
    pairs = read_pairs(chosen.pairs)
    documents = chosen.text.read_text("utf-8").splitlines()
    predicted = (chosen.finetuned / PREDICTIONS).read_text("utf-8").splitlines()
    people = []
    for (question, place), answered in zip(pairs, predicted, strict=True):
        if parts := title_and_lead(name_in(question), str(place), documents):
            people.append((*parts, place, answered == place))
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
