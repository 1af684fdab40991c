"""Chapter 5: what a recipe makes of a corpus, and of questions.

The same text can be read in windows, symbol by symbol, or document by document with something cut
out. What does not fit the model or the recipe is refused here, before anything is trained. Next:
does pretraining put knowledge into weights? (tasks/knowledge.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyattn.data.text import DataError, documents_of
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.tasks.examples import DocumentExamples, QuestionExamples, TextExamples

if TYPE_CHECKING:
    from tinyattn.data.cloze import Gaps
    from tinyattn.tasks.recipe import Recipe
    from tinyattn.training.settings import TrainSettings

Pairs = list[tuple[str, str]]
"""Questions with their answers."""


def text_examples(
    text: str, vocabulary: Vocabulary, recipe: Recipe, settings: TrainSettings, seed: int
) -> tuple[TextExamples, np.ndarray]:
    """Windows of the text for next-symbol prediction, and the ids at its end that are held out.

    Raises: DataError if either part is shorter than one window.
    """
    ids, context = vocabulary.encode(text), recipe.model.longest
    kept = int(len(ids) * (1 - recipe.data.validation))
    if min(kept, len(ids) - kept if kept < len(ids) else kept) <= context:
        raise DataError(
            f"the corpus has {len(ids)} characters, {len(ids) - kept} of them for validation; "
            f"each part needs more than one context of {context}; use a longer text or a "
            "smaller model.context"
        )
    return TextExamples(ids[:kept], context, batch=settings.batch, seed=seed), ids[kept:]


def document_examples(
    text: str, vocabulary: Vocabulary, recipe: Recipe, settings: TrainSettings, seed: int
) -> DocumentExamples:
    """The documents of the text as exercises.

    Raises: DataError if the text is shorter than one context, or the exercises do not fit one.
    """
    context = recipe.model.longest
    corruption, cloze = recipe.data.corruption(), recipe.data.clozes()
    if len(text) <= context:
        raise DataError(
            f"the corpus has {len(text)} characters, not more than one context of {context}; "
            "use a longer text or a smaller model.context"
        )
    needed = corruption.longest + (2 if cloze.share else 1)
    if needed > context:
        raise DataError(
            f"data.longest {corruption.longest} needs a model.context of at least {needed}, and "
            f"an attention that reads as far; got {context}"
        )
    lines = documents_of(text, blank_lines=recipe.data.blank_lines)
    gaps: list[Gaps | None] = [cloze.gaps(line) if cloze.share else None for line in lines]
    if cloze.share and not any(gaps):
        raise DataError(
            "data.cloze needs documents that begin with a title and a full stop, and have a phrase "
            "with a capital behind it; set data.cloze to 0 for this corpus"
        )
    return DocumentExamples(
        [vocabulary.encode(line) for line in lines], corruption, vocabulary.mask,
        space=vocabulary.ids.get(" ", -1), cloze=cloze, gaps=gaps,
        batch=settings.batch, length=recipe.data.length or context,
        seed=seed, shuffle=settings.shuffle,
    )  # fmt: skip


def as_read(pairs: Pairs, recipe: Recipe, vocabulary: Vocabulary, unknown: str) -> Pairs:
    """The pairs as training reads them.

    A5 leaves out what is not ASCII; `unknown` "drop" also what the vocabulary does not have.
    """

    def read(text: str) -> str:
        if recipe.data.ascii_questions:
            text = text.encode("ascii", "ignore").decode("ascii")
        return vocabulary.known(text) if unknown == "drop" else text

    return [(read(question), read(answer)) for question, answer in pairs]


def question_examples(
    pairs: Pairs, vocabulary: Vocabulary, recipe: Recipe, settings: TrainSettings, seed: int
) -> QuestionExamples:
    """The pairs as examples.

    Raises: DataError if there are none, or for one that is empty, has an unknown character or does
        not fit the model.
    """
    if not pairs:
        raise DataError("there are no pairs to learn from")
    for question, answer in pairs:
        if not (question and answer):
            raise DataError(f"nothing is left of a pair to learn from: {question!r}, {answer!r}")
    context = recipe.model.longest
    longest = max(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    if sum(map(len, longest)) + 1 > context:
        raise DataError(
            f"a pair of {sum(map(len, longest))} symbols does not fit the model's context of "
            f"{context}, MASK included: {longest[0][:40]!r}.."
        )
    return QuestionExamples(
        pairs, vocabulary,
        batch=settings.batch, length=recipe.data.length or context,
        seed=seed, shuffle=settings.shuffle,
    )  # fmt: skip
