"""Chapter 8, continued: the training loop.

Take a batch, take a step, write down what happened, now and then keep a checkpoint. All that is
random follows from the seed and the number of the step, so a run that was interrupted and resumed
ends with the same bits as one that was not. Next: the tasks.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tinyattn.data.batches import Batch
from tinyattn.data.files import Content, check_writable
from tinyattn.kernels.cuda.products import products_in
from tinyattn.limits import seed_of
from tinyattn.nn import Module
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import Checkpoint, moments, restore, write_errors
from tinyattn.training.metrics import METRICS, Log
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import TrainSettings
from tinyattn.training.signals import Interrupted, named, stop_asked
from tinyattn.training.step import Loss, Step

CHECKPOINT = "checkpoint.safetensors"
SAVE_SECONDS = 60.0


class Data(Protocol):
    """Where batches come from: a pure function of a seed and the number of the epoch."""

    batches_per_epoch: int

    def epoch(self, number: int) -> list[Batch]:
        """The batches of one epoch, `batches_per_epoch` of them."""

    def tokens_before(self, step: int) -> int:
        """How many tokens, PADs included, the steps before this one have read."""


class TrainingFailed(Exception):
    """The loss is no longer a number; the last good checkpoint is kept."""


@dataclass
class Fit:
    """What a run needs besides data, model and loss.

    Args:
        settings: of the stage.
        folder: where metrics and the checkpoint go.
        about: what else the checkpoint should hold, as JSON.
        beside: the run's other files, and what they become when it begins.
        corpus_tokens: see `TrainSettings.make_schedule`.
        measure: called every `measure_every` steps; what it returns is logged too.
        ranks: the processes that share the run; the first one writes.
        on_step: called after each step with what was logged about it, if it was, for a bar.
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
        self.seed = seed_of(self.seed)  # Python's own number, since the checkpoint's JSON has it

    def run(
        self, model: Module, loss: Loss, data: Data, resume: Checkpoint | None = None
    ) -> list[dict[str, Any]]:
        """Train to the end, or from where `resume` stopped; returns the entries of the log.

        Nothing is written before all is checked. Where an earlier run lies in the folder, it stays
        whole until this one keeps its first checkpoint.

        Raises: Interrupted after a signal to stop, TrainingFailed if the loss is not a number; in
            both cases the folder holds the last good checkpoint, if one has been written.
            ValueError for products that the device does not have.
        """
        total = self.settings.total_steps(data.batches_per_epoch)
        schedule = self.settings.make_schedule(total, self.corpus_tokens)
        start = number = int(resume.about["step"]) if resume else 0
        optimizers = self._optimizers(model, resume)
        take = Step(loss, optimizers, seed=self.seed, clip=self.settings.clip, workers=self.workers,
                    ranks=self.ranks)  # fmt: skip
        places = [self.folder / name for name in (CHECKPOINT, METRICS)] + [*self.beside]
        exactly = products_in(take.xp, self.settings.products)
        with stop_asked() as asked, exactly, take:
            if self.ranks.writes:
                with write_errors():  # now, and not with the first checkpoint
                    for place in places:
                        check_writable(place)
            log = Log(
                self.folder, start, self.beside, writes=self.ranks.writes,
                waits=resume is None and any(map(os.path.lexists, places)),
            )  # fmt: skip
            saved = time.perf_counter()
            for step, batch in zip(range(start, total), _batches(data, start), strict=False):
                learning_rate = schedule(step, data.tokens_before(step))
                number, last = step + 1, step + 1 == total
                even = number % max(1, self.measure_every) == 0
                measured = self.measure is not None and (last or even)
                due = log.due(number, total, always=last or measured)
                with self._failures(log):
                    result = take(batch, step, learning_rate)
                    if due:  # on a GPU to ask is to wait, so not at every step
                        result.check()
                log.took(result)
                entry: dict[str, Any] = {}
                if due:
                    more = self.measure() if self.measure and measured else {}
                    epoch = step // data.batches_per_epoch + 1
                    entry = log.add(result, epoch, learning_rate, more)
                self.on_step(entry)
                stopped = self.ranks.any_of(asked())
                if last or stopped or time.perf_counter() - saved > SAVE_SECONDS:
                    with self._failures(log):
                        result.check()
                    self._save(model, optimizers, number, total, log)
                    saved = time.perf_counter()
                if stopped:
                    break
            # Asked once more: nobody goes on before the first has written.
            if stopped := self.ranks.any_of(asked()):
                raise Interrupted(
                    f"stopped{named(stopped)} after step {number} of {total}", stopped
                )
        return log.entries

    def _optimizers(self, model: Module, resume: Checkpoint | None) -> list[Optimizer]:
        """The optimisers; model and moments as they were, if the run goes on."""
        if resume:
            model.load_state(resume.group("model"))
        optimizers = self.settings.make_optimizers(model)
        if resume:
            restore(optimizers, resume, self.folder / CHECKPOINT)
        return optimizers

    def _save(
        self, model: Module, optimizers: list[Optimizer], step: int, total: int, log: Log
    ) -> None:
        arrays = {f"model.{n}": p.data for n, p in model.named_parameters()}
        arrays |= moments(optimizers)
        about = {**self.about, "step": step, "steps": total, "seed": self.seed}
        if not all(o.flat.finite() for o in optimizers):
            raise TrainingFailed(self._failure(f"step {step}: the parameters are not finite", log))
        if self.ranks.writes:
            with log.beginning() as beside:
                checkpoint.save(self.folder / CHECKPOINT, arrays, about, beside)

    @contextmanager
    def _failures(self, log: Log) -> Iterator[None]:
        """Inside, a loss that is not a number is told with what to do."""
        try:
            yield
        except FloatingPointError as error:
            raise TrainingFailed(self._failure(str(error), log)) from error

    def _failure(self, error: str, log: Log) -> str:
        path = self.folder / CHECKPOINT
        kept = f"the last good checkpoint is {path}" if path.exists() else "no checkpoint yet"
        if log.waits:
            kept = f"no checkpoint yet, and what {self.folder} held is as it was"
        return f"{error}; {kept}; try a smaller learning_rate than {self.settings.learning_rate:g}"


def _batches(data: Data, start: int) -> Iterator[Batch]:
    """All batches from step `start` on, epoch after epoch without end."""
    first, index = divmod(start, data.batches_per_epoch)
    for epoch in itertools.count(first):
        yield from data.epoch(epoch)[index:]
        index = 0
