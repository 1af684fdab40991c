"""Chapter 6: a run, from its settings to its last checkpoint.

This file combines what training needs: optimizers, schedule, step, log, checkpoints and loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyattn.data.files import Content
from tinyattn.limits import seed_of
from tinyattn.nn import Module
from tinyattn.services import service
from tinyattn.training.checkpoint import CHECKPOINT, Checkpoint
from tinyattn.training.keep import Keeper, are_there, go_on
from tinyattn.training.loop import Data, train
from tinyattn.training.metrics import METRICS, Log
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import TrainSettings, matmul_precision
from tinyattn.training.signals import Interrupted, named, stop_requested
from tinyattn.training.step import Loss, Step, StepResult
from tinyattn.workers import NoThreads, check_alone


@service
def step(
    xp: Any, loss: Loss, optimizers: list[Optimizer], *, seed: int = 0, clip: float = 1.0,
    workers: int | None = None, ranks: Ranks | None = None,
) -> Step:  # fmt: skip
    """The training step of a run.

    Args:
        loss: the loss function.
        optimizers: optimizers that together update every parameter.
        seed: seed of dropout.
        clip: largest gradient norm.
        workers: number of threads that share a batch; this step has one.
        ranks: processes that share a batch; this step has one.
    Raises: ValueError for a seed out of range; NoThreads for several workers or ranks.
    """
    check_alone(workers)
    if ranks is not None and ranks.size > 1:
        raise NoThreads(f"{ranks.size} processes: only tinyattn/parallel shares a step, and it was "
                        "deleted or is switched off; leave out mpiexec")  # fmt: skip
    return Step(loss, optimizers, seed=seed, clip=clip)


@dataclass
class Fit:
    """What a run needs besides data, model and loss.

    Args:
        settings: settings of the stage.
        folder: folder for the log and the checkpoint.
        about: further contents of the checkpoint, as JSON.
        beside: the run's other files, and their contents when the run begins.
        seed, workers: see `step`.
        corpus_tokens: see `TrainSettings.make_schedule`.
        measure: called every `measure_every` steps and after the last; its values are logged too.
        ranks: the processes that share the run; the first one writes.
        on_step: called after each step, for a progress bar, with the step's log entry; an empty
            one if the step was not logged.
    """

    settings: TrainSettings
    folder: Path
    about: dict[str, Any]
    beside: Mapping[Path, Content] = field(default_factory=dict)
    seed: int = 0
    workers: int | None = None
    corpus_tokens: int = 0
    measure: Callable[[], dict[str, float]] | None = None
    measure_every: int = 0
    ranks: Ranks = ALONE
    on_step: Callable[[dict[str, Any]], None] = lambda entry: None

    def __post_init__(self) -> None:
        self.seed = seed_of(self.seed)  # Python's int, for the JSON of the checkpoint

    def run(
        self, model: Module, loss: Loss, data: Data, resume: Checkpoint | None = None
    ) -> list[dict[str, Any]]:
        """Train to the end, from the start or from `resume`; returns the entries of the log.

        Nothing is written before everything is checked. An earlier run in the folder stays complete
        until this run saves its first checkpoint.

        Raises: Interrupted after a signal to stop; TrainingFailed if the loss is NaN or infinite;
            in both cases the folder contains the last good checkpoint, if one has been saved.
            ValueError for a matmul_precision that the device does not have.
        """
        settings, ranks = self.settings, self.ranks
        total = settings.total_steps(data.batches_per_epoch)
        schedule = settings.make_schedule(total, self.corpus_tokens)
        if resume:
            model.load_state(resume.group("model"))
        optimizers = settings.make_optimizers(model)
        start = go_on(optimizers, resume, self.folder) if resume else 0
        xp = model.parameters()[0].xp
        take = step(xp, loss, optimizers, seed=self.seed, clip=settings.clip, workers=self.workers,
                    ranks=ranks)  # fmt: skip
        places = [self.folder / name for name in (CHECKPOINT, METRICS)] + [*self.beside]
        with stop_requested() as requested, matmul_precision(xp, settings.matmul_precision), take:
            there = are_there(places, ranks)
            log = Log(self.folder, start, self.beside, writes=ranks.writes,
                      waits=there and resume is None)  # fmt: skip
            keeper = Keeper(self.folder, {**self.about, "seed": self.seed}, model, optimizers,
                            total, log, settings.learning_rate, ranks)  # fmt: skip

            def note(result: StepResult, learning_rate: float) -> None:
                self._note(log, result, learning_rate, total, data.batches_per_epoch)

            def stop() -> int:
                return ranks.any_of(requested())

            with keeper.failures():
                taken = train(take, data, schedule, start, total, log=note, keep=keeper, stop=stop)
            if stopped := stop():  # again, since it makes all ranks wait until rank 0 has saved
                raise Interrupted(f"stopped{named(stopped)} after step {taken} of {total}", stopped)
        return log.entries

    def _note(
        self, log: Log, result: StepResult, learning_rate: float, total: int, per_epoch: int
    ) -> None:
        """Log a step if it is due. On a GPU, reading a step's values waits for its computation."""
        number = result.step + 1
        last, even = number == total, number % max(1, self.measure_every) == 0
        measure = self.measure if last or even else None
        entry: dict[str, Any] = {}
        if due := log.due(number, total, always=last or measure is not None):
            result.check()
        log.took(result)
        if due:
            more = measure() if measure else {}
            entry = log.add(result, result.step // per_epoch + 1, learning_rate, more)
        self.on_step(entry)
