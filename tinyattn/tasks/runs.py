"""Chapter 6: run folders.

A run is a folder: `config.toml` contains the settings, `metrics.jsonl` the log, and
`checkpoint.safetensors` the trained parameters, with all that is needed to use them.

All files in a folder belong to one run. A run that replaces another one (--overwrite) leaves the
earlier files complete until its first checkpoint. Then all its files are written at once, and
answers and curves of the earlier model are removed. So --resume always continues the run whose
files are there. If a process was killed before that first checkpoint, --resume refuses to continue
the earlier run in place of the new one (lock.py). A run that was killed before its first
checkpoint, where there was no earlier run, leaves only its configuration and its log. It may be
begun again.
"""

from __future__ import annotations

import difflib
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

SUGGESTED = 4
"""Number of runs that the error for a wrong folder names at most."""

HEADER: dict[str, type] = {"stage": str, "seed": int, "step": int, "steps": int, "model": dict}
"""The keys of every checkpoint's header, with their types."""


def load(path: str | Path, *, device: str = "cpu") -> Run:
    """The run in a run folder or checkpoint file, of any task; its model is on `device`.

    Raises: CheckpointError, with the reason, if it is missing, damaged or not of tinyattn.
    """
    file = checkpoint_in(path)
    if not file.exists():
        near = " or ".join(_runs_near(Path(path)))
        what_to_do = f"did you mean {near}?" if near else (
            "run `tinyattn quickstart`, or train a model there, or name another run with --from"
        )  # fmt: skip
        raise CheckpointError(f"{file}: no such file; {what_to_do}")
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


def _runs_near(path: Path) -> list[str]:
    """The runs in a folder that is no run itself; else beside it, first one with a similar name."""
    inside, beside = (sorted((str(file.parent) for file in folder.glob(f"*/{CHECKPOINT}")),
                             key=lambda run: ("finetune" not in run, run))
                      for folder in (path, path.parent))  # fmt: skip
    names = {Path(run).name: run for run in beside}
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    if inside or near or not path.is_dir():
        return inside[:SUGGESTED] or [names[name] for name in near]
    return beside[:SUGGESTED]  # a folder of data, for example


def load_run(path: str | Path, *, device: str = "cpu") -> Trained:
    """The character-level GPT in a run folder or checkpoint file, on `device`.

    Raises: CheckpointError as `load`, and if the file contains another kind of model.
    """
    run = load(path, device=device)
    if not isinstance(run, Trained):
        raise CheckpointError(f"{checkpoint_in(path)}: holds {task_of(run.about['stage']).holds}")
    return run


def checkpoint_in(path: str | Path) -> Path:
    """The checkpoint of a run folder; the path itself if it is not a folder."""
    path = Path(path)
    return path / CHECKPOINT if path.is_dir() else path


def check_room(config: Any, saved: Checkpoint) -> None:
    """Check that a checkpoint can contain a model of these sizes, before the model is created: a
    wrong size could need more memory than there is.

    Raises: ValueError if it cannot.
    """
    least = config.layers * config.width**2  # the feed-forward network alone has more
    if least > sum(array.size for array in saved.group("model").values()):
        raise ValueError(f"model: {config.layers} layers of width {config.width} have more "
                         "parameters than it holds")  # fmt: skip


def load_parameters(model: Module, saved: Checkpoint) -> None:
    """Load a checkpoint's parameters into a model.

    Raises: ValueError with all parameters that do not fit, for one that is not finite, and for an
        array that is neither a parameter nor optimizer state.
    """
    model.load_state(saved.group("model"))
    for name, values in model.state().items():
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite (NaN): its training failed")
    for name in saved.arrays:
        if not name.startswith(("model.", "optimizer.")):
            raise ValueError(f"{name} belongs to no model and no optimizer")


def open_run(
    folder: str | Path, *, overwrite: bool, resume: bool = False, resumable: bool = False
) -> Path:
    """Check that a run may be written to a folder, and return it. Nothing is changed.

    Args:
        overwrite: whether to replace an earlier run.
        resume: whether to continue an earlier run.
        resumable: whether the caller's command has --resume.
    Raises: SettingError if the folder contains a run with a checkpoint, or files of such names that
        may be the user's own, and neither overwrite nor resume is True; or if there is nothing to
        resume.
    """
    folder = Path(folder)
    there = [name for name in RUN_FILES if os.path.lexists(folder / name)]
    if CHECKPOINT in there and not (overwrite or resume):
        go_on = "--resume to continue it, " if resumable else ""
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
    """Whether `run_files` wrote this configuration, and it has not been changed since."""
    if not config.is_file():  # such as a pipe, which would block
        return False
    try:
        text = config.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
        return tables.keys() >= {"model", "penalty"} and text == to_toml(tables)
    except (OSError, ValueError, RecursionError, AttributeError):  # the last: a key outside a table
        return False


@contextmanager
def held_run(
    folder: str | Path, *, overwrite: bool, resume: bool = False, resumable: bool = False,
    ranks: Ranks = ALONE,
) -> Iterator[Path]:  # fmt: skip
    """`open_run` as a context manager that locks the folder until its end. See `alone_in`."""
    with alone_in(folder, resume=resume, ranks=ranks):
        yield open_run(folder, overwrite=overwrite, resume=resume, resumable=resumable)


@contextmanager
def held_runs(folders: Iterable[Path], *, overwrite: bool) -> Iterator[None]:
    """`held_run` for all folders of a job, before its work begins."""
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(held_run(folder, overwrite=overwrite))
        yield


def run_files(
    folder: Path, tables: dict[str, dict[str, Any]], *, resume: bool = False
) -> dict[Path, Content]:
    """The contents of a run's files when it begins, except its log and its checkpoint.

    Args: resume: whether the run continues; its earlier answers and curves are then kept.
    """
    old = () if resume else (PREDICTIONS, CURVES)
    return {folder / CONFIG: to_toml(tables), **{folder / name: None for name in old}}
