"""Chapter 6: doing a job.

Whatever the task, a run is done in one way: it alone writes to its folder, it begins or goes on,
and at its end the checkpoint is what can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyattn import __version__
from tinyattn.backend import get_device
from tinyattn.limits import MOST_WORKERS, seed_of, whole
from tinyattn.switches import switched_off
from tinyattn.tasks import knowledge
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.preparation import Pairs
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.runs import load, run_files
from tinyattn.tasks.task import Job, Run, task_of
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.fit import Fit
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import SettingError, missing_products

MEASURES = 10  # in a run, evenly spread


@dataclass(frozen=True)
class RunOptions:
    """Where and how to run. The seed changes what is learned; device and workers its last bits.

    Raises: ValueError for a seed or a number of workers out of range; a GPU has one.
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
            whole("workers", self.workers, 1, MOST_WORKERS if self.device == "cpu" else 1)

    def alone(self) -> AbstractContextManager[None]:
        """Inside, nobody else writes to the folder; see `alone_in`."""
        return alone_in(self.folder, resume=self.resume, ranks=self.ranks)


def train(make: Callable[[], Job], options: RunOptions) -> Any:
    """Do the job that `make` returns; its run, as `load` gives it, is kept in `options.folder`.

    Raises: SettingError if another process is writing there; CheckpointError if the run that should
        go on is another one; and what `make` and `Fit` raise.
    """
    with options.alone():
        return _done(make(), options)


def _done(job: Job, options: RunOptions) -> Run:
    total = job.settings.total_steps(job.data.batches_per_epoch)
    about = {**job.about, "formulas": switched_off()}  # on which the last bits depend
    resume: Checkpoint | None = None
    done = 0
    if options.resume:
        begun = load(options.folder, device=options.device)
        if other := _differences(job, options.seed, begun):
            raise CheckpointError(
                f"{options.folder}: holds a run with {', '.join(other)}; ask for the same to go on "
                "with it, or take another folder"
            )
        resume, done = begun.checkpoint, int(begun.about["step"])
    options.ranks.agree(f"{__version__} {about} {options.seed} {done} {total}")
    if options.resume and done >= total:  # nothing left to do, and nothing to write down
        return begun
    job.model.to(options.device)
    options.on_start(done, total)
    fit = Fit(
        job.settings, options.folder, about,
        beside=run_files(options.folder, job.tables, resume=options.resume),
        seed=options.seed, workers=options.workers, corpus_tokens=job.corpus_tokens,
        measure=task_of(about["stage"]).measure(job) if options.ranks.writes else None,
        measure_every=max(1, total // MEASURES), ranks=options.ranks, on_step=options.on_step,
    )  # fmt: skip
    if why := missing_products(get_device(options.device).xp, job.settings.products):
        raise SettingError(why)
    try:
        fit.run(job.model, job.loss, job.data, resume)
    except MemoryError as error:
        fits = getattr(error, "fits", 0)  # of a batch's texts, if it was too large for a GPU
        advice = f": --set {job.table}.batch={fits}" if fits else ""
        raise MemoryError(f"{error}{advice}") from error
    return load(options.folder, device=options.device)


def _differences(job: Job, seed: int, begun: Run) -> list[str]:
    """In what a run that should go on differs from the one that was begun."""
    now, then = {**job.about, "seed": seed}, begun.about
    values = {
        f"model.{key}": (value, then["model"].get(key)) for key, value in now["model"].items()
    }
    values |= {key: (now[key], then.get(key)) for key in ("stage", "seed")}
    values |= {
        f"{table}.{key}": (job.tables[table][key], begun.tables.get(table, {}).get(key))
        for table, key in job.decides
    }
    found = [
        f"another {key} ({old}, not {new})" for key, (new, old) in values.items() if old != new
    ]
    return found + [
        name for key, name in job.texts.items() if now.get(key, "") != then.get(key, "")
    ]


def pretrain(
    text: str,
    recipe: Recipe,
    options: RunOptions,
    *,
    questions: Pairs | None = None,
    unknown: str = "error",
) -> Trained:
    """Train a new model on a corpus. See `knowledge.pretraining`, and `train`."""
    run: Trained = train(
        lambda: knowledge.pretraining(text, recipe, options.seed, questions, unknown), options
    )
    return run


def finetune(
    pairs: Pairs,
    recipe: Recipe,
    options: RunOptions,
    *,
    start: Trained | None = None,
    text: str | None = None,
    unknown: str = "error",
) -> Trained:
    """Teach a model to answer questions. See `knowledge.finetuning`, and `train`."""
    run: Trained = train(
        lambda: knowledge.finetuning(pairs, recipe, options.seed, start, text, unknown), options
    )
    return run
