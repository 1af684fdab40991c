"""Chapter 5: the knowledge task: does pretraining put knowledge into weights?

A5 (assignment 5 of Stanford CS224N) asks this question. Pretrain a small GPT on sentences about
people. Finetune it on "Where was X born?" for some of them. Then ask about the others, whose
birthplaces are in the pretraining text and nowhere else. A model without pretraining can only
guess. Here are the two jobs, pretraining and finetuning.
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
from tinyattn.nn import weight_hooks
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
    from tinyattn.rng import DropoutRNG
    from tinyattn.tasks.recipe import Recipe
    from tinyattn.tensor import Tensor
    from tinyattn.training.checkpoint import Checkpoint
    from tinyattn.training.loop import Data
    from tinyattn.training.settings import TrainSettings

WINDOWS = 64  # most windows (pieces of one context length) for a validation loss
MUST_MATCH = {
    "vocabulary": "another vocabulary",
    "data": "another text to learn from",
    "questions": "other questions among its examples",
    "pretrained_on": "another pretraining text",
}
"""What must be the same to resume a run, with the words for an error; see `Job.must_match`."""


@dataclass
class Trained:
    """A model with its vocabulary, as a checkpoint holds them; `about` is the header, see `Job`."""

    model: GPT
    vocabulary: Vocabulary
    recipe: Recipe
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The settings of the recipe, a dictionary for each table of its TOML file."""
        return self.recipe.tables()


def language_model_loss(
    model: GPT, penalty: Penalty | None = None
) -> Callable[[Batch, DropoutRNG | None, float], Tensor]:
    """The cross-entropy of the next token over all targets that are not PAD, plus a penalty."""

    def loss(batch: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        weights: list[Tensor] = []
        hooks = weight_hooks(len(model.layers), weights) if penalty else None
        logits = model(batch.inputs, dropout_rng=dropout_rng, hooks=hooks)
        targets = asarray(batch.targets, device=model.device)
        entropy: Tensor = ops.cross_entropy(logits, targets, ignore=PAD, divisor=divisor)
        if not (penalty and weights):
            return entropy
        return entropy + penalty(weights, targets != PAD, divisor)

    return loss


def pretraining(
    text: str,
    recipe: Recipe,
    seed: int,
    questions: Pairs | None = None,
    unknown: str = "error",
) -> Job:
    """A job that trains a new model on a corpus by span corruption or next-token prediction.

    With `questions`, every epoch of span corruption has these pairs too, each once. So the model
    learns the form of the questions while it learns the facts (Allen-Zhu and Li 2023).

    Raises: DataError if the corpus is too short, or if a pair is empty, is too long or has a
        character outside the vocabulary; SettingError for questions without span corruption.
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
            windows = _windows(held_out, model.max_length)
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
    """A job that trains a model to answer questions: a pretrained model (`start`) or a new one.

    The parameters of `start.model` itself change. A new model takes its vocabulary from the corpus
    `text`. The number of documents in the corpus sets the length of A5's learning rate schedule.

    Raises: DataError if a pair is empty, is longer than the model's context, or has a character
        outside the vocabulary.
    """
    if start is not None:
        model, vocabulary, table = start.model, start.vocabulary, "finetune"
        recipe = replace(recipe, model=model.config)  # the recipe's own model is ignored
        documents = int(start.about["documents"])
    elif text is not None:
        vocabulary = Vocabulary.from_text(text)
        model = GPT(recipe.model_for(len(vocabulary)), seed=seed)
        table = "scratch"  # the settings for finetuning without pretraining
        documents = len(documents_of(text, blank_lines=recipe.data.blank_lines))
    else:
        raise ValueError("finetune: needs a pretrained model (start) or a corpus (text)")
    pairs = as_read(pairs, recipe, vocabulary, unknown)
    data = question_examples(pairs, vocabulary, recipe, getattr(recipe, table), seed)
    # Fingerprints of the data and the questions of pretraining; empty without pretraining.
    pretrained = {"data": "", "questions": "", **(start.about if start is not None else {})}
    more = {"pretrained_on": pretrained["data"], "questions": pretrained["questions"]}
    return language_model_job("finetune", table, recipe, model, vocabulary, data, repr(pairs),
                              documents, more)  # fmt: skip


def language_model_job(
    stage: str, table: str, recipe: Recipe, model: GPT, vocabulary: Vocabulary, data: Data,
    source: str, documents: int, more: dict[str, Any] | None = None,
    held_out: Batch | None = None,
) -> Job:  # fmt: skip
    """A job that trains a GPT over characters on `data`, by the settings in a table of the recipe.

    Args:
        source: the text or pairs behind `data`. Its fingerprint prevents resuming with other data.
        documents: the number of documents in the corpus; A5's learning rate schedule needs it.
        more: further keys and values for the checkpoint's header.
        held_out: a batch for validation; the run measures the loss of this batch now and then.
    """
    settings: TrainSettings = getattr(recipe, table)
    tables = recipe.tables()
    about = {
        "stage": stage,
        "model": asdict(model.config),
        "vocabulary": "".join(vocabulary.characters),
        "recipe": tables,
        "documents": documents,
        "data": fingerprint(source),
        **(more or {}),
    }
    stage_tables = ["finetune", "scratch"] if stage == "finetune" else ["pretrain"]
    decides = [("data", key) for key in tables["data"]]  # settings that decide each step's examples
    decides += [(name, key) for name in stage_tables for key in ("batch", "shuffle")]
    return Job(
        model, data, language_model_loss(model, recipe.penalty), settings, about, tables, table,
        decides, MUST_MATCH, held_out, documents * model.config.context,
    )  # fmt: skip


def fingerprint(data: str) -> str:
    """A hash that identifies a text; space at its ends is ignored."""
    return hashlib.sha256(data.strip().encode()).hexdigest()


def _windows(ids: np.ndarray, context: int) -> Batch:
    """Windows spread evenly over a text."""
    starts = np.linspace(0, len(ids) - context - 1, min(WINDOWS, len(ids) // context)).astype(int)
    rows = np.stack([ids[s : s + context + 1] for s in starts])
    return Batch(rows[:, :-1], rows[:, 1:])
