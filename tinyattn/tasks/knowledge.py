"""Chapter 9, continued: does pretraining put knowledge into weights?

CS224N assignment 5 asks it like this. Pretrain a small GPT on sentences about people; finetune it
on "Where was X born?" for some of them; then ask about the others, whose birthplaces stand in the
pretraining text and nowhere else. A model that skipped pretraining can only guess. Next: judging
the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn import __version__, ops
from tinyattn.attention import Penalty, head_statistics
from tinyattn.backend import asarray, get_device
from tinyattn.data.batches import PAD, Batch
from tinyattn.data.text import documents_of
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.graph import no_grad
from tinyattn.kernels.cuda.products import missing_products
from tinyattn.limits import MOST_WORKERS, seed_of, whole
from tinyattn.models import GPT
from tinyattn.noise import Noise
from tinyattn.tasks.examples import Examples, Together
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.preparation import (
    Pairs,
    as_read,
    document_examples,
    question_examples,
    text_examples,
)
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.runs import Trained, describe, fingerprint, load_run, run_files
from tinyattn.tensor import Tensor
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.loop import Data, Fit
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import SettingError, TrainSettings
from tinyattn.training.step import SHARD_TOKENS, BatchTooLarge

MEASURES = 10  # in a run, evenly spread
WINDOWS = 64  # of the validation text that are looked at each time
WATCHED = 8, 128  # examples, and positions in them, whose attention weights are looked at


@dataclass(frozen=True)
class RunOptions:
    """Where and how to run. The seed changes what is learned; device and workers its last bits.

    Raises: ValueError for a seed or a number of workers out of range.
    """

    folder: Path
    seed: int = 0
    device: str = "cpu"
    workers: int | None = None
    resume: bool = False
    ranks: Ranks = ALONE
    on_start: Callable[[int, int], None] = lambda done, total: None
    on_step: Callable[[dict[str, Any]], None] = lambda entry: None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))
        if self.workers is not None:
            whole("workers", self.workers, 1, MOST_WORKERS)

    def alone(self) -> AbstractContextManager[None]:
        """Inside, nobody else writes to the folder; see `alone_in`."""
        return alone_in(self.folder, resume=self.resume, ranks=self.ranks)

    @property
    def threads(self) -> int | None:
        """Those that compute a step's shards: on a GPU one, else `workers`."""
        return self.workers if self.device == "cpu" else 1


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


def pretrain(
    text: str,
    recipe: Recipe,
    options: RunOptions,
    *,
    questions: Pairs | None = None,
    unknown: str = "error",
) -> Trained:
    """Train a new model on a corpus, by span corruption or plain next-symbol prediction.

    With `questions` every epoch of span corruption has these pairs too, each once, so that the
    model learns how it will be asked while it learns what there is to know (Allen-Zhu and Li 2023).

    Raises: DataError if the corpus is too short, or a pair too long, or one that cannot be read;
        SettingError for questions where there are no exercises to mix them with, or if another
        process is writing to the folder.
    """
    with options.alone():
        if questions is not None and recipe.data.objective != "span":
            raise SettingError("questions can be mixed with the exercises of data.objective 'span'")
        settings, vocabulary = recipe.pretrain, Vocabulary.from_text(text)
        model = GPT(recipe.model_for(len(vocabulary)), seed=options.seed)
        validation = None
        data: Examples
        if recipe.data.objective == "next":
            data, held_out = text_examples(text, vocabulary, recipe, settings, options.seed)
            documents = 1
            if len(held_out):
                validation = _validation(model, held_out)
        else:
            data = document_examples(text, vocabulary, recipe, settings, options.seed)
            documents = data.count
        if questions is not None:
            questions = as_read(questions, recipe, vocabulary, unknown)
            more = question_examples(questions, vocabulary, recipe, settings, options.seed)
            data = Together(data, more)
        about = describe("pretrain", recipe, model, vocabulary, documents, text)
        about["questions"] = fingerprint(repr(questions)) if questions else ""
        return _fit(model, data, recipe, "pretrain", about, options, validation)


def finetune(
    pairs: Pairs,
    recipe: Recipe,
    options: RunOptions,
    *,
    start: Trained | None = None,
    text: str | None = None,
    unknown: str = "error",
) -> Trained:
    """Teach a model to answer questions: a pretrained one (`start`), or a new one.

    `start.model` itself is trained on. A new model takes its vocabulary, and A5's schedule its
    length, from the corpus `text`.

    Raises: DataError if a pair is longer than the model's context, or holds an unknown character;
        SettingError if another process is writing to the folder.
    """
    with options.alone():
        if start is not None:
            model, vocabulary, table = start.model, start.vocabulary, "finetune"
            recipe = replace(recipe, model=model.config)  # whatever the recipe says of models
            documents = int(start.about["documents"])
        elif text is not None:
            vocabulary = Vocabulary.from_text(text)
            model = GPT(recipe.model_for(len(vocabulary)), seed=options.seed)
            table = "scratch"
            documents = len(documents_of(text, blank_lines=recipe.data.blank_lines))
        else:
            raise ValueError("finetune: needs a pretrained model (start) or a corpus (text)")
        pairs = as_read(pairs, recipe, vocabulary, unknown)
        settings: TrainSettings = getattr(recipe, table)
        data = question_examples(pairs, vocabulary, recipe, settings, options.seed)
        about = describe("finetune", recipe, model, vocabulary, documents, repr(pairs))
        about["pretrained_on"] = start.about.get("data", "") if start is not None else ""
        about["questions"] = start.about.get("questions", "") if start is not None else ""
        return _fit(model, data, recipe, table, about, options)


def _fit(
    model: GPT,
    data: Data,
    recipe: Recipe,
    table: str,
    about: dict[str, Any],
    options: RunOptions,
    validation: Callable[[], float] | None = None,
) -> Trained:
    """Train a model as a table of the recipe says."""
    settings: TrainSettings = getattr(recipe, table)
    total = settings.total_steps(data.batches_per_epoch)
    resume: Checkpoint | None = None
    done = 0
    if options.resume:
        trained = load_run(options.folder, device=options.device)
        then = {**trained.about, "recipe": trained.recipe.tables()}
        if other := _differences({**about, "seed": options.seed}, then):
            raise CheckpointError(
                f"{options.folder}: holds a run with {', '.join(other)}; ask for the same to go on "
                "with it, or take another folder"
            )
        resume, done = trained.checkpoint, int(trained.about["step"])
    options.ranks.agree(f"{__version__} {about} {options.seed} {done} {total}")
    if options.resume and done >= total:  # nothing left to do, and nothing to write down
        return trained
    model.to(options.device)
    options.on_start(done, total)
    fit = Fit(
        settings, options.folder, about,
        beside=run_files(options.folder, about["recipe"], resume=options.resume),
        seed=options.seed, workers=options.threads,
        corpus_tokens=about["documents"] * model.config.context,
        measure=_measure(model, data, recipe.penalty, validation) if options.ranks.writes else None,
        measure_every=max(1, total // MEASURES), ranks=options.ranks, on_step=options.on_step,
    )  # fmt: skip
    if why := missing_products(get_device(options.device).xp, settings.products):
        raise SettingError(why)
    try:
        fit.run(model, language_model_loss(model, recipe.penalty), data, resume)
    except BatchTooLarge as error:
        advice = f": --set {table}.batch={error.fits}" if error.fits else ""
        raise MemoryError(f"{error}{advice}") from error
    return load_run(options.folder, device=options.device)


def _differences(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """In what a run that should go on differs from the one that was begun."""
    values = {
        f"model.{key}": (value, then["model"].get(key)) for key, value in now["model"].items()
    }
    values |= {key: (now[key], then.get(key)) for key in ("stage", "seed")}
    tables = ["pretrain"] if now["stage"] == "pretrain" else ["finetune", "scratch"]
    for table in ["data", *tables]:  # what decides which examples a step gets
        settings = now["recipe"][table]
        for key in settings if table == "data" else ("batch", "shuffle"):
            values[f"{table}.{key}"] = settings[key], then["recipe"][table].get(key)
    found = [
        f"another {key} ({old}, not {new})" for key, (new, old) in values.items() if old != new
    ]
    texts = {"vocabulary": "another vocabulary", "data": "another text to learn from",
             "questions": "other questions among its exercises",
             "pretrained_on": "another text that it was pretrained on"}  # fmt: skip
    return found + [name for key, name in texts.items() if now.get(key, "") != then.get(key, "")]


def _measure(
    model: GPT, data: Data, penalty: Penalty, validation: Callable[[], float] | None
) -> Callable[[], dict[str, float]]:
    """What is looked at now and then: the validation loss, and where the heads look."""
    first = data.epoch(0)[0]
    rows, positions = WATCHED  # few, since weights are T × T also where attention is not
    sample = Batch(first.inputs[:rows, :positions], first.targets[:rows, :positions])

    def measure() -> dict[str, float]:
        watch: list[Tensor] = []
        with no_grad():
            model(sample.inputs, watch=watch)
            counts = asarray(sample.targets != PAD, device=model.device)
            heads = head_statistics(watch, counts, penalty.cap, model.cannot)
        return heads | ({"validation": validation()} if validation else {})

    return measure


def _validation(model: GPT, ids: np.ndarray) -> Callable[[], float]:
    """The mean loss over windows spread evenly over a text, in nats a character."""
    context = model.longest
    starts = np.linspace(0, len(ids) - context - 1, min(WINDOWS, len(ids) // context)).astype(int)
    rows = np.stack([ids[s : s + context + 1] for s in starts])
    loss = language_model_loss(model)

    def measure() -> float:
        with no_grad():
            batch = Batch(rows[:, :-1], rows[:, 1:])
            parts = batch.split(-(-batch.inputs.size // SHARD_TOKENS))
            return sum(loss(part, None, float(batch.trained)).item() for part in parts)

    return measure
