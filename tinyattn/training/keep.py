"""Chapter 6: a run keeps what it has.

A checkpoint of a run holds the parameters, the optimisers' moments, and how far the run has come.
One is kept now and then, and nothing that is not a number ever is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyattn.data.files import check_writable
from tinyattn.nn import Module
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT, Checkpoint, moments, restore, write_errors
from tinyattn.training.metrics import Log
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.ranks import Ranks
from tinyattn.training.step import StepResult

SAVE_SECONDS = 60.0


class TrainingFailed(Exception):
    """The loss is no longer a number; the last good checkpoint is kept."""


def are_there(places: Iterable[Path], ranks: Ranks) -> bool:
    """Whether something lies at one of these places, where a run will write.

    Raises: CheckpointError if it cannot: now, and not with the first checkpoint.
    """
    if ranks.writes:
        with write_errors():
            for place in places:
                check_writable(place)
    return any(map(os.path.lexists, places))


@dataclass
class Keeper:
    """Keeps the checkpoints of a run.

    Args: about: what else they hold, as JSON.
    """

    folder: Path
    about: dict[str, Any]
    model: Module
    optimizers: list[Optimizer]
    total: int
    log: Log
    learning_rate: float
    ranks: Ranks
    saved: float = field(default_factory=time.perf_counter)

    def __call__(self, result: StepResult, now: bool) -> None:
        """Keep a checkpoint after a step, if the last one is old, or `now`.

        Raises: FloatingPointError if the step's loss is not a number; and as `save` does.
        """
        if now or time.perf_counter() - self.saved > SAVE_SECONDS:
            result.check()
            self.save(result.step + 1)
            self.saved = time.perf_counter()

    def save(self, step: int) -> None:
        """Keep what there is after so many steps.

        Raises: TrainingFailed if a parameter is not finite; CheckpointError, see `checkpoint.save`.
        """
        parameters = dict(self.model.named_parameters())
        if not all(bool(p.xp.isfinite(p.data).all()) for p in parameters.values()):
            raise self._failure(f"step {step}: the parameters are not finite")
        arrays = {f"model.{n}": p.data for n, p in parameters.items()} | moments(self.optimizers)
        if self.ranks.writes:
            with self.log.beginning() as beside:
                about = {**self.about, "step": step, "steps": self.total}
                checkpoint.save(self.folder / CHECKPOINT, arrays, about, beside)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Inside, a loss that is not a number is told with what to do."""
        try:
            yield
        except FloatingPointError as error:
            raise self._failure(str(error)) from error

    def _failure(self, error: str) -> TrainingFailed:
        path = self.folder / CHECKPOINT
        kept = f"the last good checkpoint is {path}" if path.exists() else "no checkpoint yet"
        if self.log.waits:
            kept = f"no checkpoint yet, and what {self.folder} held is as it was"
        advice = f"try a smaller learning_rate than {self.learning_rate:g}"
        return TrainingFailed(f"{error}; {kept}; {advice}")


def go_on(optimizers: list[Optimizer], saved: Checkpoint, folder: Path) -> int:
    """Make the moments what they were in a checkpoint; returns the steps that were taken.

    Raises: CheckpointError if they do not fit.
    """
    restore(optimizers, saved, folder / CHECKPOINT)
    return int(saved.about["step"])
