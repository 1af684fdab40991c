"""Chapter 5: does pretraining put knowledge into weights?

CS224N assignment 5 asks it like this. Pretrain a small GPT on sentences about people; finetune it
on "Where was X born?" for some of them; then ask about the others, whose birthplaces stand in the
pretraining text and nowhere else. A model that skipped pretraining can only guess. Here are the two
jobs, pretraining and finetuning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.data.batches import PAD, Batch
from tinyattn.data.text import documents_of
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.models.gpt import GPT
from tinyattn.tasks.examples import Examples, Together
from tinyattn.tasks.preparation import (
    Pairs,
    as_read,
    document_examples,
    question_examples,
    text_examples,
)
from tinyattn.tasks.task import Job

if TYPE_CHECKING:
    from tinyattn.attention.penalties import Penalty
    from tinyattn.noise import Noise
    from tinyattn.tasks.recipe import Recipe
    from tinyattn.tensor import Tensor
    from tinyattn.training.checkpoint import Checkpoint
    from tinyattn.training.loop import Data
    from tinyattn.training.settings import TrainSettings

WINDOWS = 64  # of the validation text that are looked at each time
TEXTS = {"vocabulary": "another vocabulary", "data": "another text to learn from",
         "questions": "other questions among its exercises",
         "pretrained_on": "another text that it was pretrained on"}  # fmt: skip
"""What must be the same for a run to go on."""


@dataclass
class Trained:
    """A model with its vocabulary, as a checkpoint holds them."""

    model: GPT
    vocabulary: Vocabulary
    recipe: Recipe
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Those of its recipe."""
        return self.recipe.tables()


def language_model_loss(
    model: GPT, penalty: Penalty | None = None
) -> Callable[[Batch, Noise | None, float], Tensor]:
    """The cross-entropy of the next symbol, over all targets that are not PAD, and a penalty."""

    def loss(batch: Batch, noise: Noise | None, divisor: float) -> Tensor:
        watch: list[Tensor] | None = [] if penalty else None
        logits = model(batch.inputs, noise=noise, watch=watch)
        targets = asarray(batch.targets, device=model.device)
        entropy: Tensor = ops.cross_entropy(logits, targets, ignore=PAD, divisor=divisor)
        if not (penalty and watch):
            return entropy
        return entropy + penalty(watch, targets != PAD, divisor)

    return loss


def pretraining(
    text: str,
    recipe: Recipe,
    seed: int,
    questions: Pairs | None = None,
    unknown: str = "error",
) -> Job:
    """A new model, to learn a corpus by span corruption or plain next-symbol prediction.

    With `questions` every epoch of span corruption has these pairs too, each once, so that the
    model learns how it will be asked while it learns what there is to know (Allen-Zhu and Li 2023).

    Raises: DataError if the corpus is too short, or a pair too long, or one that cannot be read;
        SettingError for questions where there are no exercises to mix them with.
    """
    if questions is not None:
        recipe.data.check_mixing()
    settings, vocabulary = recipe.pretrain, Vocabulary.from_text(text)
    model = GPT(recipe.model_for(len(vocabulary)), seed=seed)
    windows = None
    data: Examples
    if recipe.data.objective == "next":
        data, held_out = text_examples(text, vocabulary, recipe, settings, seed)
        documents = 1
        if len(held_out):
            windows = _windows(held_out, model.longest)
    else:
        data = document_examples(text, vocabulary, recipe, settings, seed)
        documents = data.count
    if questions is not None:
        questions = as_read(questions, recipe, vocabulary, unknown)
        more = question_examples(questions, vocabulary, recipe, settings, seed)
        data = Together(data, more)
    more_about = {"questions": fingerprint(repr(questions)) if questions else ""}
    return language_model_job("pretrain", "pretrain", recipe, model, vocabulary, data, text,
                              documents, more_about, windows)  # fmt: skip


def finetuning(
    pairs: Pairs,
    recipe: Recipe,
    seed: int,
    start: Trained | None = None,
    text: str | None = None,
    unknown: str = "error",
) -> Job:
    """A model to learn to answer questions: a pretrained one (`start`), or a new one.

    `start.model` itself is trained on. A new model takes its vocabulary, and A5's schedule its
    length, from the corpus `text`.

    Raises: DataError if a pair is longer than the model's context, or holds an unknown character.
    """
    if start is not None:
        model, vocabulary, table = start.model, start.vocabulary, "finetune"
        recipe = replace(recipe, model=model.config)  # whatever the recipe says of models
        documents = int(start.about["documents"])
    elif text is not None:
        vocabulary = Vocabulary.from_text(text)
        model = GPT(recipe.model_for(len(vocabulary)), seed=seed)
        table = "scratch"
        documents = len(documents_of(text, blank_lines=recipe.data.blank_lines))
    else:
        raise ValueError("finetune: needs a pretrained model (start) or a corpus (text)")
    pairs = as_read(pairs, recipe, vocabulary, unknown)
    data = question_examples(pairs, vocabulary, recipe, getattr(recipe, table), seed)
    before = {"data": "", "questions": "", **(start.about if start is not None else {})}
    more = {"pretrained_on": before["data"], "questions": before["questions"]}
    return language_model_job("finetune", table, recipe, model, vocabulary, data, repr(pairs),
                              documents, more)  # fmt: skip


def language_model_job(
    stage: str, table: str, recipe: Recipe, model: GPT, vocabulary: Vocabulary, data: Data,
    learnt: str, documents: int, more: dict[str, Any] | None = None,
    held_out: Batch | None = None,
) -> Job:  # fmt: skip
    """A GPT over characters, to learn `data` as a table of the recipe says.

    Args:
        learnt: what the data was made from, so that no run goes on with other data.
        documents: of the corpus, from which A5's schedule takes its length.
        more: what else the checkpoint is to say.
        held_out: of the text, to be looked at now and then.
    """
    settings: TrainSettings = getattr(recipe, table)
    tables = recipe.tables()
    about = {
        "stage": stage,
        "model": asdict(model.config),
        "vocabulary": "".join(vocabulary.characters),
        "recipe": tables,
        "documents": documents,
        "data": fingerprint(learnt),
        **(more or {}),
    }
    mine = ["finetune", "scratch"] if stage == "finetune" else ["pretrain"]
    decides = [("data", key) for key in tables["data"]]
    decides += [(name, key) for name in mine for key in ("batch", "shuffle")]
    return Job(
        model, data, language_model_loss(model, recipe.penalty), settings, about, tables, table,
        decides, TEXTS, held_out, documents * model.config.context,
    )  # fmt: skip


def fingerprint(data: str) -> str:
    """What tells a text from others; space at its ends does not count."""
    return hashlib.sha256(data.strip().encode()).hexdigest()


def _windows(ids: np.ndarray, context: int) -> Batch:
    """Windows spread evenly over a text."""
    starts = np.linspace(0, len(ids) - context - 1, min(WINDOWS, len(ids) // context)).astype(int)
    rows = np.stack([ids[s : s + context + 1] for s in starts])
    return Batch(rows[:, :-1], rows[:, 1:])
