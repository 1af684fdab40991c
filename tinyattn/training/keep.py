"""Chapter 6: saving the checkpoints of a run.

A checkpoint of a run contains the parameters, the optimizer state and the number of finished steps.
A run saves one every SAVE_SECONDS and at its end, and never one with NaN or infinite values.
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
    """The loss or a parameter is NaN or infinite; the last good checkpoint is kept."""


def are_there(places: Iterable[Path], ranks: Ranks) -> bool:
    """Whether one of these paths, to which a run will write, exists already.

    Raises: CheckpointError if one cannot be written, so that a run fails before its first step.
    """
    if ranks.writes:
        with write_errors():
            for place in places:
                check_writable(place)
    return any(map(os.path.lexists, places))


@dataclass
class Keeper:
    """Saves the checkpoints of a run.

    Args:
        about: further contents of the checkpoints, as JSON.
        total: steps of the whole run.
        learning_rate: peak of the schedule, for the advice in an error.
        saved: time of the last checkpoint, in seconds of `time.perf_counter`.
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
        """Save a checkpoint after a step if `now`, or if the last one is older than SAVE_SECONDS.

        Raises: FloatingPointError if the step's loss is NaN or infinite; and as `save`.
        """
        if now or time.perf_counter() - self.saved > SAVE_SECONDS:
            result.check()
            self.save(result.step + 1)
            self.saved = time.perf_counter()

    def save(self, step: int) -> None:
        """Save a checkpoint after `step` steps.

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
        """A context manager that raises TrainingFailed for a loss that is NaN or infinite."""
        try:
            yield
        except FloatingPointError as error:
            raise self._failure(str(error)) from error

    def _failure(self, error: str) -> TrainingFailed:
        path = self.folder / CHECKPOINT
        kept = f"the last good checkpoint is {path}" if path.exists() else "no checkpoint yet"
        if self.log.waits:
            kept = f"no checkpoint yet; the earlier files in {self.folder} are unchanged"
        advice = f"try a smaller learning_rate than {self.learning_rate:g}"
        return TrainingFailed(f"{error}; {kept}; {advice}")


def go_on(optimizers: list[Optimizer], saved: Checkpoint, folder: Path) -> int:
    """Load the optimizer state from a checkpoint; returns the number of finished steps.

    Raises: CheckpointError if it does not fit.
    """
    restore(optimizers, saved, folder / CHECKPOINT)
    return int(saved.about["step"])
