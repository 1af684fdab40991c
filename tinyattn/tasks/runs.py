"""Chapter 6: run folders.

A run is a folder: `config.toml` says what was asked for, `metrics.jsonl` what happened, and
`checkpoint.safetensors` holds what was learned, with all that is needed to use it alone.

The files in a folder are always of one run. One that is to take the place of another (--overwrite)
leaves it whole until it keeps its first checkpoint; then all its files come at once, and answers
and curves of the earlier model go. So what is resumed is the run whose files are there; and if a
process was killed before that first checkpoint, --resume refuses to take the earlier run for the
one that was begun (lock.py). A run that broke off before its first checkpoint, where no other lay,
leaves only its configuration and its log: it may be begun again.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.files import Content
from tinyattn.data.text import DataError
from tinyattn.nn import Module
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.recipe import to_toml
from tinyattn.tasks.task import Run, task_of
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT, Checkpoint, CheckpointError, check_header
from tinyattn.training.metrics import METRICS, begins_as_log
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import SettingError

CONFIG, PREDICTIONS, CURVES = "config.toml", "predictions.tsv", "curves.png"
RUN_FILES = CONFIG, METRICS, CHECKPOINT, PREDICTIONS, CURVES

HEADER: dict[str, type] = {"stage": str, "seed": int, "step": int, "steps": int, "model": dict}
"""What every run's checkpoint says of itself, and as what."""


def load(path: str | Path, *, device: str = "cpu") -> Run:
    """What a run folder or a checkpoint file holds, whatever its task; the model is on `device`.

    Raises: CheckpointError if it is missing, damaged or not ours, with all that is wrong.
    """
    file = checkpoint_in(path)
    if not file.exists():
        raise CheckpointError(f"{file}: no such file; train a model there first, or name another")
    saved = checkpoint.load(file)
    check_header(file, saved.about, HEADER)
    try:
        task = task_of(saved.about["stage"])
    except ValueError as error:
        raise CheckpointError(f"{file}: does not fit this program: {error}") from error
    check_header(file, dict.fromkeys(task.may_lack, "") | saved.about,
                 task.header | task.may_lack)  # fmt: skip
    try:
        run = task.open(file, saved)
    except (TypeError, ValueError, MemoryError, SettingError, DataError) as error:
        raise CheckpointError(f"{file}: does not fit this program: {error}") from error
    run.model.to(device)
    return run


def load_run(path: str | Path, *, device: str = "cpu") -> Trained:
    """The GPT over characters in a run folder or checkpoint file, on `device`.

    Raises: CheckpointError as `load`, and if it holds another model.
    """
    run = load(path, device=device)
    if not isinstance(run, Trained):
        raise CheckpointError(f"{checkpoint_in(path)}: holds {task_of(run.about['stage']).holds}")
    return run


def checkpoint_in(path: str | Path) -> Path:
    """The checkpoint of a run folder; or the path itself, if it is none."""
    path = Path(path)
    return path / CHECKPOINT if path.is_dir() else path


def check_room(config: Any, saved: Checkpoint) -> None:
    """See that a model of these sizes can be in a checkpoint, before one is made: a wrong number
    could ask for more memory than there is.

    Raises: ValueError.
    """
    least = config.layers * config.width**2  # a feed-forward layer alone has more
    if least > sum(array.size for array in saved.group("model").values()):
        raise ValueError(f"model: {config.layers} layers of width {config.width} have more "
                         "parameters than it holds")  # fmt: skip


def load_parameters(model: Module, saved: Checkpoint) -> None:
    """Take over a checkpoint's parameters.

    Raises: ValueError with all that do not fit, or that are not finite; and for arrays that are
        neither parameters nor an optimiser's.
    """
    model.load_state(saved.group("model"))
    for name, values in model.state().items():
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite (NaN): it was not trained well")
    for name in saved.arrays:
        if not name.startswith(("model.", "optimizer.")):
            raise ValueError(f"{name} belongs to no model and no optimiser")


def open_run(
    folder: str | Path, *, overwrite: bool, resume: bool = False, resumable: bool = False
) -> Path:
    """A folder that a run may be written to. Nothing changes until the run begins.

    Args: resumable: whether the caller could go on with a run that is there.
    Raises: SettingError if a run with a checkpoint is there already, or what may be somebody's own
        files of such names, and neither overwrite nor resume is asked for; or if there is nothing
        to resume.
    """
    folder = Path(folder)
    there = [name for name in RUN_FILES if os.path.lexists(folder / name)]
    if CHECKPOINT in there and not (overwrite or resume):
        go_on = "--resume to go on with it, " if resumable else ""
        raise SettingError(
            f"{folder} holds a run already; use {go_on}--overwrite to start again, or another --out"
        )
    broke_off = there == [CONFIG, METRICS] and _is_ours(folder / CONFIG)
    broke_off = broke_off and begins_as_log(folder / METRICS)
    if resume and CHECKPOINT not in there:
        begin = "leave out --resume to begin"
        if there and not broke_off:
            begin = "begin again with --overwrite"
        raise SettingError(f"{folder} holds no checkpoint to resume; {begin}")
    if there and not (overwrite or resume or broke_off):
        raise SettingError(f"{folder} holds {', '.join(there)} already, and no checkpoint; use "
                           "--overwrite to replace what is there, or another --out")  # fmt: skip
    return folder


def _is_ours(config: Path) -> bool:
    """Whether a configuration is one that `run_files` wrote, and nobody has changed since."""
    if not config.is_file():  # a pipe, say, which would let us wait
        return False
    try:
        text = config.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
        return tables.keys() >= {"model", "penalty"} and text == to_toml(tables)
    except (OSError, ValueError, RecursionError, AttributeError):  # the last: a key of no table
        return False


@contextmanager
def held_run(
    folder: str | Path, *, overwrite: bool, resume: bool = False, resumable: bool = False,
    ranks: Ranks = ALONE,
) -> Iterator[Path]:  # fmt: skip
    """`open_run` for a folder that nobody else may write to before the end. See `alone_in`."""
    with alone_in(folder, resume=resume, ranks=ranks):
        yield open_run(folder, overwrite=overwrite, resume=resume, resumable=resumable)


@contextmanager
def held_runs(folders: Iterable[Path], *, overwrite: bool) -> Iterator[None]:
    """`held_run` for all folders of a job, before any of its work."""
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(held_run(folder, overwrite=overwrite))
        yield


def run_files(
    folder: Path, tables: dict[str, dict[str, Any]], *, resume: bool = False
) -> dict[Path, Content]:
    """What the files of a run that begins become, but for its log and its checkpoint.

    Args: resume: whether it goes on; then an earlier model's answers and curves are its own.
    """
    old = () if resume else (PREDICTIONS, CURVES)
    return {folder / CONFIG: to_toml(tables), **{folder / name: None for name in old}}
