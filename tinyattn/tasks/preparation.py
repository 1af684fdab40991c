"""Chapter 5: preparing training examples.

A text can be cut into windows for next-token prediction, or into documents for span corruption. If
a text or a pair does not fit the model or the recipe, these functions raise an error before
training begins. Next: the knowledge task (tasks/knowledge.py).
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
    """Windows of the text for next-token prediction, and the ids at its end, for validation.

    Raises: DataError if either part is shorter than one window.
    """
    ids, context = vocabulary.encode(text), recipe.model.max_length
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
    """Training examples from the documents of the text: span corruption and clozes.

    Raises: DataError if the text is not longer than the context, if an example could be longer, or
        if clozes are wanted and no document can become one.
    """
    context = recipe.model.max_length
    corruption, cloze = recipe.data.corruption(), recipe.data.clozes()
    if len(text) <= context:
        raise DataError(
            f"the corpus has {len(text)} characters, not more than one context of {context}; "
            "use a longer text or a smaller model.context"
        )
    needed = corruption.longest + (2 if cloze.probability else 1)
    if needed > context:
        raise DataError(
            f"data.longest {corruption.longest} needs a model.context of at least {needed}, and "
            f"an attention type that allows it; got {context}"
        )
    lines = documents_of(text, blank_lines=recipe.data.blank_lines)
    gaps: list[Gaps | None] = [cloze.gaps(line) if cloze.probability else None for line in lines]
    if cloze.probability and not any(gaps):
        raise DataError(
            "data.cloze needs documents that begin with a title and a full stop, followed by a "
            "phrase with a capital letter; set data.cloze to 0 for this corpus"
        )
    return DocumentExamples(
        [vocabulary.encode(line) for line in lines], corruption, vocabulary.mask,
        space=vocabulary.ids.get(" ", -1), cloze=cloze, gaps=gaps,
        batch=settings.batch, length=recipe.data.length or context,
        seed=seed, shuffle=settings.shuffle,
    )  # fmt: skip


def as_read(pairs: Pairs, recipe: Recipe, vocabulary: Vocabulary, unknown: str) -> Pairs:
    """The pairs as training uses them.

    With data.ascii_questions, as in A5 (assignment 5 of Stanford CS224N), characters that are not
    ASCII are left out; with `unknown` "drop", also characters that are not in the vocabulary.
    """

    def read(text: str) -> str:
        if recipe.data.ascii_questions:
            text = text.encode("ascii", "ignore").decode("ascii")
        return vocabulary.known(text) if unknown == "drop" else text

    return [(read(question), read(answer)) for question, answer in pairs]


def question_examples(
    pairs: Pairs, vocabulary: Vocabulary, recipe: Recipe, settings: TrainSettings, seed: int
) -> QuestionExamples:
    """Training examples from the pairs.

    Raises: DataError if there is no pair, or for a pair that has an empty question or answer, has a
        character outside the vocabulary, or does not fit the model.
    """
    if not pairs:
        raise DataError("there are no pairs to learn from; give at least one")
    for question, answer in pairs:
        if not (question and answer):
            raise DataError(
                f"the question or the answer is empty in a pair: {question!r}, {answer!r}; remove "
                "the pair, or write it with other characters"
            )
    context = recipe.model.max_length
    longest = max(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    if sum(map(len, longest)) + 1 > context:
        raise DataError(
            f"a pair of {sum(map(len, longest))} characters and a MASK does not fit the model's "
            f"context of {context}: {longest[0][:40]!r}..; shorten it, or use a larger context"
        )
    return QuestionExamples(
        pairs, vocabulary,
        batch=settings.batch, length=recipe.data.length or context,
        seed=seed, shuffle=settings.shuffle,
    )  # fmt: skip
