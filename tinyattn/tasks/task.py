"""Chapter 5: what a task is.

A model learns because somebody says what to learn, and how good it became. A task says it: how a
file becomes examples, which loss a model is to lower, how its answers are scored, and what a
checkpoint holds so that the model can be used again. All else (run folders, locks, checkpoints,
resuming, the commands `train` and `score`) is the same for every task. A new one is a file with a
`Task` in it, and a line in TASKS. Next: from corpus and questions to the batches of every epoch
(tasks/examples.py).
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
    "parse": "tinyattn.parsing.task",
}
"""Every task by name, and the module that has it as TASK. It is imported when it is asked for: a
task may stand behind this chapter, and costs nothing before."""


@dataclass(frozen=True)
class Job:
    """All that one run needs: what a task makes of its data and of a recipe.

    Args:
        about: what the checkpoint is to say as JSON, with "stage" and "model" among it.
        tables: the settings that the run's configuration file shows.
        table: that of `settings` among them.
        decides: tables and keys of the settings that decide which examples a step gets.
        texts: what else in `about` must be the same for a run to go on, and how an error calls it.
        held_out: what is not learned from, and looked at now and then.
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
    texts: dict[str, str]
    held_out: Batch | None = None
    corpus_tokens: int = 0


class Run(Protocol):
    """A trained model, with what its task needs to use it."""

    model: Any
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def recipe(self) -> Any:
        """That which it was trained by, to go on with. Raises: CheckpointError if there is none."""

    @property
    def tables(self) -> dict[str, Any]:
        """The settings that it was trained with, as `Job.tables`."""


class Task(ABC):
    """What there is to learn, and how good a model became.

    Args:
        name: in TASKS.
        stages: what its checkpoints may say as their stage, if that is not the name alone.
        holds: what an error calls a checkpoint of this task.
        header: what its checkpoints say besides HEADER (runs.py), and as what.
        may_lack: texts that a checkpoint may lack.
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str]
    header: ClassVar[dict[str, type]] = {}
    may_lack: ClassVar[dict[str, type]] = {}

    @abstractmethod
    def job(self, path: Path, recipe: Any, seed: int) -> Job:
        """What a new model is to learn from a file, with the model and `pretrain` of a recipe.

        Raises: DataError if the file cannot be learnt from, SettingError if the recipe cannot.
        """

    def measure(self, job: Job) -> Callable[[], dict[str, float]] | None:
        """What is to be looked at now and then while a job is done, and logged beside the loss."""
        return None

    @abstractmethod
    def open(self, file: Path, saved: Checkpoint) -> Run:
        """The model in a checkpoint whose header is as it should be.

        Raises: ValueError, TypeError, MemoryError, SettingError, DataError or CheckpointError if it
            does not fit.
        """

    @abstractmethod
    def score(self, run: Any, path: Path, workers: int | None = None) -> tuple[dict[str, Any], str]:
        """How good a model is at a file that it has not seen: for programs, and for people.

        Raises: DataError if it cannot be judged by that.
        """


def task_called(name: str) -> Task:
    """The task that TASKS calls so."""
    task: Task = import_module(TASKS[name]).TASK
    return task


def task_of(stage: str) -> Task:
    """The task whose checkpoints have this stage. Raises: ValueError if it is that of none."""
    for name in TASKS:
        task = task_called(name)
        if stage in (task.stages or (name,)):
            return task
    raise ValueError(f"its stage {stage!r} is that of no task; there are {', '.join(TASKS)}")
