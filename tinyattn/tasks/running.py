"""Chapter 6: running a job.

Every task is run in the same way: the run locks its folder, begins or resumes, trains, and returns
what its last checkpoint contains.
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
from tinyattn.switches import kernels_in_use, switched_off
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
from tinyattn.training.settings import SettingError, why_no_precision

MEASURES = 10  # per run, evenly spaced


@dataclass(frozen=True)
class RunOptions:
    """Where and how to run.

    Args:
        folder: folder of the run.
        seed: seed of the run. It changes what is learned; device and workers change only rounding.
        device: "cpu" or "cuda".
        workers: number of threads; by default one per core; 1 on a GPU.
        resume: whether to continue the run in the folder.
        ranks: the processes that share the run.
        on_start: called with the steps done and the total, before the first step.
        on_step: as in `Fit`.
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
            whole("workers", self.workers, 1, MOST_WORKERS if self.device == "cpu" else 1)

    def alone(self) -> AbstractContextManager[None]:
        """A context manager in which no other process writes to the folder; see `alone_in`."""
        return alone_in(self.folder, resume=self.resume, ranks=self.ranks)


def train(make: Callable[[], Job], options: RunOptions) -> Any:
    """Run the job that `make` returns, in `options.folder`; returns the run as `load` does.

    Raises: SettingError if another process is writing there; CheckpointError if the run to resume
        is a different one; and what `make` and `Fit` raise.
    """
    with options.alone():
        return _done(make(), options)


def _done(job: Job, options: RunOptions) -> Run:
    total = job.settings.total_steps(job.data.batches_per_epoch)
    # What can compute decides the rounding.
    rounding = {"formulas": switched_off(), "kernels": kernels_in_use(options.device)}
    about = {**job.about, **rounding}
    resume: Checkpoint | None = None
    done = 0
    if options.resume:
        begun = load(options.folder, device=options.device)
        if other := _differences(job, options.seed, begun):
            raise CheckpointError(
                f"{options.folder}: holds a run with {', '.join(other)}; use the same settings to "
                "resume it, or another folder"
            )
        resume, done = begun.checkpoint, int(begun.about["step"])
    options.ranks.agree(f"{__version__} {about} {options.seed} {done} {total}")
    if options.resume and done >= total:  # nothing left to do or to write
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
    if why := why_no_precision(get_device(options.device).xp, job.settings.matmul_precision):
        raise SettingError(why)
    try:
        fit.run(job.model, job.loss, job.data, resume)
    except MemoryError as error:
        fits = getattr(error, "fits", 0)  # sequences, if a batch was too large for a GPU
        advice = f": --set {job.table}.batch={fits}" if fits else ""
        raise MemoryError(f"{error}{advice}") from error
    return load(options.folder, device=options.device)


def _differences(job: Job, seed: int, begun: Run) -> list[str]:
    """The differences between this job and the run that should be resumed."""
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
        name for key, name in job.must_match.items() if now.get(key, "") != then.get(key, "")
    ]


def pretrain(
    text: str,
    recipe: Recipe,
    options: RunOptions,
    *,
    questions: Pairs | None = None,
    unknown: str = "error",
) -> Trained:
    """Train a new model on a corpus. See `knowledge.pretraining` and `train`."""
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
    """Train a model to answer questions. See `knowledge.finetuning` and `train`."""
    run: Trained = train(
        lambda: knowledge.finetuning(pairs, recipe, options.seed, start, text, unknown), options
    )
    return run
