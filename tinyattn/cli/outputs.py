"""Wing, commands: what commands write, spare, and end with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np

from tinyattn.cli.options import show
from tinyattn.cli.streams import complain, note
from tinyattn.data.files import check_writable
from tinyattn.report import curves
from tinyattn.tasks.runs import CONFIG, CURVES, PREDICTIONS
from tinyattn.training.checkpoint import CHECKPOINT, write_errors
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.ranks import ALONE, MissingMPI, all_ranks

HEADER_SIZE = 8
"""A safetensors file begins with the length of its header, so many bytes; then comes the header, a
JSON object."""


def spare(
    option: str, target: Path, inputs: Mapping[str, Path | None], names: Iterable[str] = ()
) -> None:
    """See, before any work, that a command does not write over what it reads.

    Args:
        option: what names the target.
        inputs: what the command reads, by what it is called; a folder stands for the run in it.
        names: if the target is a folder, the files that are written there.
    Raises: click.UsageError.
    """
    targets = [target / name for name in names] or [target]
    for what, source in inputs.items():
        for read in _files(source) if source else ():
            if any(_is_same(written, read) for written in targets):
                raise click.UsageError(f"{option} {target} would replace {what}; name another")
    if not names:
        _spare_checkpoint(option, target)


def _spare_checkpoint(option: str, target: Path) -> None:
    """See that a text or a picture does not take the place of a model, whoever trained that.

    Raises: click.UsageError.
    """
    if target.is_file() and (target.suffix == ".safetensors" or _is_safetensors(target)):
        raise click.UsageError(f"{option} {target} would replace a checkpoint; name another")


def _is_safetensors(path: Path) -> bool:
    """Whether a file begins as one does; one that cannot be read does not."""
    with suppress(OSError), open(path, "rb") as file:
        length = int.from_bytes(file.read(HEADER_SIZE), "little")
        return length <= path.stat().st_size - HEADER_SIZE and file.read(1) == b"{"
    return False


def _files(source: Path) -> list[Path]:
    """The files that are read where a command is told to read `source`."""
    names = (CHECKPOINT, CONFIG, METRICS)
    return [source / name for name in names] if source.is_dir() else [source]


def _is_same(a: Path, b: Path) -> bool:
    """Whether two paths are of one file, by links or by name; a pipe or a terminal is none."""
    if os.path.exists(b) and not os.path.isfile(b):
        return False
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def predictions_of(start: Path) -> Path:
    """Where the predictions of a run are kept.

    Raises: click.UsageError if those that are there may be somebody's own: a checkpoint that is
        named as a file may lie anywhere.
    """
    folder = start if start.is_dir() else start.parent
    path = folder / PREDICTIONS
    if os.path.lexists(path) and not (folder / CHECKPOINT).exists():
        raise click.UsageError(f"{folder} holds {PREDICTIONS}, and no run that it could be of; say "
                               "where to write with --predictions FILE")  # fmt: skip
    return path


def check_target(path: Path, hint: str) -> None:
    """Learn before the work whether a file can be written; `hint` is the option that names it.

    Raises: click.UsageError for a folder that is not there, or a checkpoint that is.
    """
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise click.BadParameter(f"{path}: no such folder", param_hint=hint)
    _spare_checkpoint(hint, path)
    with write_errors():
        check_writable(path)


PATIENCE = 1.0
"""Seconds that all but the first process wait with an error: it may say the same, and end all."""


def fail(message: str, status: int, *, all_know: bool = False) -> NoReturn:
    """Say why in one line and leave; of several processes that all know, the first says it."""
    try:
        ranks = all_ranks(np)
    except MissingMPI:
        ranks = ALONE  # there are no others that this one knows of
    if not ranks.writes:
        if all_know:
            sys.exit(status)
        time.sleep(PATIENCE)
    complain(message)
    if not all_know:
        ranks.end_all(status)  # or the others would wait for this one
    sys.exit(status)


def finish(folder: Path, title: str, *, began: bool) -> None:
    """Draw the curves of a run and say what it came to, and if it was over before it `began`."""
    entries = draw(folder, title)
    last = entries[-1] if entries else {}  # a finished run was resumed, and its log is gone
    result = ""
    if last:
        validation = f", validation loss {last['validation']:.3f}" if "validation" in last else ""
        result = f"step {last['step']}, loss {last['loss']:.3f}{validation} nats, "
        result += f"{last['seconds']:.0f} s; "
    names = {"entropy": "entropy in nats", "distance": "squared distance"}
    if heads := [f"{what} {last[name]:.2f}" for name, what in names.items() if name in last]:
        result += f"heads: {', '.join(heads)}; "
    where = f"the run is in {folder}{'' if began else '; there was nothing left to do'}"
    show({"folder": str(folder), **last}, f"{title}: {result}{where}")


def draw(folder: Path, title: str) -> list[dict[str, Any]]:
    """Draw the curves of a run, where matplotlib is installed; returns its log.

    The run is kept, so that a picture that cannot be drawn or written costs no more than a note.
    """
    entries = read_metrics(folder / METRICS)
    if len(entries) > 1:
        try:
            curves.save_curves(entries, folder / CURVES, title)
        except curves.NotInstalled:
            pass
        except (curves.NoPicture, OSError) as error:
            note_no_picture(folder / CURVES, error)
    return entries


def note_no_picture(path: Path, error: Exception) -> None:
    """Say on stderr why there is no picture."""
    why = error.strerror if isinstance(error, OSError) else None
    note(f"no picture {path}: {why or error}")
