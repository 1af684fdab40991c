"""Wing, commands: output files, final messages and the exit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np

from tinyattn.cli.options import as_json, show
from tinyattn.cli.streams import complain, note
from tinyattn.data.files import check_writable
from tinyattn.report import curves
from tinyattn.tasks.runs import CONFIG, CURVES, PREDICTIONS
from tinyattn.training.checkpoint import CHECKPOINT, write_errors
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.ranks import ALONE, MissingMPI, all_ranks

HEADER_SIZE = 8
"""Bytes at the start of a safetensors file. They are the length of its header, a JSON object that
comes next."""


def spare(
    option: str, target: Path, inputs: Mapping[str, Path | None], names: Iterable[str] = ()
) -> None:
    """Check, before any work, that a command does not overwrite one of its inputs.

    Args:
        option: the option that names the target.
        inputs: the files that the command reads, each under its name in the message; a folder
            means the run in it.
        names: the files that are written, if the target is a folder.
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
    """Check that a text or a picture does not replace a checkpoint.

    Raises: click.UsageError.
    """
    if target.is_file() and (target.suffix == ".safetensors" or _is_safetensors(target)):
        raise click.UsageError(f"{option} {target} would replace a checkpoint; name another")


def _is_safetensors(path: Path) -> bool:
    """Whether a file starts like a safetensors file; False if it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        length = int.from_bytes(file.read(HEADER_SIZE), "little")
        return length <= path.stat().st_size - HEADER_SIZE and file.read(1) == b"{"
    return False


def _files(source: Path) -> list[Path]:
    """The files that a command reads from `source`, a run folder or a file."""
    names = (CHECKPOINT, CONFIG, METRICS)
    return [source / name for name in names] if source.is_dir() else [source]


def _is_same(a: Path, b: Path) -> bool:
    """Whether two paths lead to one file, also by links; never for a pipe or a terminal."""
    if os.path.exists(b) and not os.path.isfile(b):
        return False
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def predictions_of(start: Path) -> Path:
    """The file for the predictions of a run.

    Raises: click.UsageError if the folder has such a file but no run: a checkpoint file may be in
        any folder, and the predictions there may be the user's own.
    """
    folder = start if start.is_dir() else start.parent
    path = folder / PREDICTIONS
    if os.path.lexists(path) and not (folder / CHECKPOINT).exists():
        raise click.UsageError(f"{folder} contains {PREDICTIONS}, but no run that it belongs to; "
                               "name another file with --predictions FILE")  # fmt: skip
    return path


def check_target(path: Path, hint: str) -> None:
    """Check, before the work, that a file can be written; `hint` is the option that names it.

    Raises: click.UsageError if the folder does not exist, or the file is a checkpoint.
    """
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise click.BadParameter(f"{path}: no such folder", param_hint=hint)
    _spare_checkpoint(hint, path)
    with write_errors():
        check_writable(path)


PATIENCE = 1.0
"""Seconds that every process except the first waits before its error message: the first may have
the same error, print it, and end all processes."""


def fail(message: str, status: int, *, all_know: bool = False) -> NoReturn:
    """Print the message in one line and exit.

    Args: all_know: whether all of several processes have this error; then the first prints it.
    """
    try:
        ranks = all_ranks(np)
    except MissingMPI:
        ranks = ALONE  # this process knows of no others
    if not ranks.writes:
        if all_know:
            sys.exit(status)
        time.sleep(PATIENCE)
    complain(message)
    if not all_know:
        ranks.end_all(status)  # otherwise the others would wait for this one
    sys.exit(status)


def finish(folder: Path, title: str, *, began: bool, heads: bool = False) -> None:
    """Draw the curves of a run and print its result.

    Args:
        began: whether a step was taken; if not, the run was finished before.
        heads: whether to print the statistics of the attention weights, as with a penalty.
    """
    entries = draw(folder, title)
    last = entries[-1] if entries else {}  # {}: a finished run was resumed, but its log is gone
    result = ""
    if last:
        validation = f", validation loss {last['validation']:.3f}" if "validation" in last else ""
        result = f"step {last['step']}, loss {last['loss']:.3f}{validation} nats, "
        result += f"{last['seconds']:.0f} s; "
    names = {"entropy": "entropy in nats", "distance": "squared distance"}
    found = [f"{what} {last[name]:.2f}" for name, what in names.items() if name in last]
    if heads and found:
        result += f"heads: {', '.join(found)}; "
    where = f"the run is in {folder}{'' if began else '; there was nothing left to do'}"
    show({"folder": str(folder), **last}, f"{title}: {result}{where}")


def draw(folder: Path, title: str) -> list[dict[str, Any]]:
    """Draw the curves of a run, if matplotlib is installed.

    The run is saved already: if the picture cannot be drawn or written, only a note is printed.

    Returns: the log of the run.
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


def check_picture(path: Path | None) -> None:
    """Check, before the work, the file that --picture names, if it was given.

    Raises: click.UsageError if it cannot be written, or matplotlib is not installed.
    """
    if path is None:
        return
    if path.suffix != ".png":
        raise click.BadParameter(f"must end with .png; got {path}", param_hint="--picture")
    try:
        curves.new_figure(1, 1)
    except curves.NotInstalled as error:
        raise click.UsageError(f"--picture needs matplotlib: {error}") from error
    except curves.NoPicture:
        pass  # a note says so after the text
    check_target(path, "--picture")


def finish_picture(path: Path | None, save: Callable[[Path], None]) -> None:
    """Draw the picture after the text, if --picture was given, or print why there is none."""
    if path is None:
        return
    try:
        save(path)
    except curves.NoPicture as error:
        note_no_picture(path, error)
    else:
        if not as_json():
            click.echo(f"The picture is {path}.")


def note_no_picture(path: Path, error: Exception) -> None:
    """Print a note that says why there is no picture."""
    why = error.strerror if isinstance(error, OSError) else None
    note(f"no picture {path}: {why or error}")
