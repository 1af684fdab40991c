"""Chapter 5: what a task is.

A task defines what a model learns: how a file becomes training examples, which loss is minimised,
how a trained model is scored, and what a checkpoint holds so that the model can be used again.
Everything else (run folders, locks, checkpoints, resuming, the commands `train` and `score`) is the
same for every task. A new task is a file with a `Task` in it, and a line in TASKS. Next: training
examples and the batches of an epoch (tasks/examples.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from tinyattn.data.batches import Batch
    from tinyattn.nn import Module
    from tinyattn.training.checkpoint import Checkpoint
    from tinyattn.training.loop import Data
    from tinyattn.training.settings import TrainSettings
    from tinyattn.training.step import Loss

TASKS = {
    "knowledge": "tinyattn.tasks.evaluation",
    "parse": "tinyattn.parsing.parse_task",
}
"""Every task by name, and the module that defines it as TASK. The module is imported at its first
use, since it may come after this chapter, and importing it takes time."""


@dataclass(frozen=True)
class Job:
    """All that one run needs. A task makes it from its data and a recipe.

    Args:
        about: the header of the checkpoint, as JSON; its keys include "stage" and "model".
        tables: the settings that the run's configuration file contains, table by table.
        table: the name of the table that contains `settings`.
        decides: table and key of each setting that decides which examples a step gets.
        must_match: other keys of `about` whose values must be the same to resume a run, each with
            the words for an error message.
        held_out: a batch for validation; its loss is measured now and then during the run.
        corpus_tokens: see `TrainSettings.make_schedule`.
    """

    model: Module
    data: Data
    loss: Loss
    settings: TrainSettings
    about: dict[str, Any]
    tables: dict[str, dict[str, Any]]
    table: str
    decides: Sequence[tuple[str, str]]
    must_match: dict[str, str]
    held_out: Batch | None = None
    corpus_tokens: int = 0


class Run(Protocol):
    """A trained model, with what its task needs to use it."""

    model: Any
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def recipe(self) -> Any:
        """The recipe by which it was trained. Raises: CheckpointError if there is none."""

    @property
    def tables(self) -> dict[str, Any]:
        """The settings with which it was trained, as `Job.tables`."""


class Task(ABC):
    """What a model learns, and how it is scored.

    Args:
        name: its name in TASKS.
        stages: the stages that its checkpoints may have; if empty, the name alone.
        holds: what a checkpoint of this task contains, in words for an error message.
        header: keys in its checkpoints' headers besides HEADER (runs.py), and their types.
        may_lack: further keys, which may be missing, and their types.
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str]
    header: ClassVar[dict[str, type]] = {}
    may_lack: ClassVar[dict[str, type]] = {}

    @abstractmethod
    def job(self, path: Path, recipe: Any, seed: int) -> Job:
        """The job of training a new model on a file, with the model and `pretrain` of a recipe.

        Raises: DataError if the file cannot be used, SettingError if the recipe cannot.
        """

    def measure(self, job: Job) -> Callable[[], dict[str, float]] | None:
        """A function to call now and then during a job; its results are logged beside the loss."""
        return None

    @abstractmethod
    def open(self, file: Path, saved: Checkpoint) -> Run:
        """The trained model in a checkpoint, whose header has been checked.

        Raises: ValueError, TypeError, MemoryError, SettingError, DataError or CheckpointError if it
            does not fit this program.
        """

    @abstractmethod
    def score(self, run: Any, path: Path, workers: int | None = None) -> tuple[dict[str, Any], str]:
        """The score of a model on a file that it was not trained on: as values, and as text.

        Raises: DataError if the file cannot be used for that.
        """


def task_called(name: str) -> Task:
    """The task with this name in TASKS."""
    task: Task = import_module(TASKS[name]).TASK
    return task


def task_of(stage: str) -> Task:
    """The task whose checkpoints have this stage. Raises: ValueError if there is none."""
    for name in TASKS:
        task = task_called(name)
        if stage in (task.stages or (name,)):
            return task
    raise ValueError(f"its stage {stage!r} belongs to no task; the tasks are {', '.join(TASKS)}")
