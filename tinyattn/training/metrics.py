"""Chapter 6: the log of a run, metrics.jsonl.

Each line is one JSON object. It is appended during training, so a crash loses at most one line. The
log ends before the first line that is not a valid entry. A resumed run drops that line and all
lines after it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyattn.data.files import Content, append, write_all
from tinyattn.limits import TICK
from tinyattn.training.checkpoint import write_errors
from tinyattn.training.step import StepResult

METRICS = "metrics.jsonl"
LOG_SECONDS = 1.0  # write a line at least this often...
LOG_LINES = 400  # ...or at this many evenly spaced steps, whichever is more often
LONGEST_LINE = 100_000  # bytes; every entry is shorter


ENTRY = {"step": int, "epoch": int, "loss": float, "learning_rate": float, "seconds": float}
"""Keys of every entry, with their types; these values are finite. All other values are numbers."""


class Log:
    """The metrics of a run. A resumed run drops the entries of steps that it will repeat.

    Args:
        folder: folder of the run, which contains the file.
        start: the step from which the run continues.
        beside: the other files of the run, and their contents when the run begins.
        waits: whether the folder contains an earlier run. Its files then stay unchanged until the
            first checkpoint of this run, which replaces all of them at once.
        writes: whether to write a file; of several processes only the first one does.
    Raises: CheckpointError if a file cannot be written; all files are then unchanged.
    """

    def __init__(
        self,
        folder: Path,
        start: int,
        beside: Mapping[Path, Content] | None = None,
        *,
        waits: bool = False,
        writes: bool = True,
    ) -> None:
        self.path, self.writes, self.waits = folder / METRICS, writes, waits and writes
        self._beside = beside or {}
        known = read_metrics(self.path) if start and writes else []
        self.entries = [entry for entry in known if entry["step"] <= start]
        self.seconds_before = self.entries[-1]["seconds"] if self.entries else 0.0
        if writes and not waits:
            with write_errors():
                write_all(self.files())
        self._began = self._now = time.perf_counter()
        self._last = 0.0
        self._positions = 0

    def files(self) -> dict[Path, Content]:
        """The log and the other files of the run, with the contents that they should have now."""
        return {**self._beside, self.path: "".join(map(_line, self.entries))}

    @contextmanager
    def beginning(self) -> Iterator[dict[Path, Content]]:
        """A context manager for saving a checkpoint; yields the files to write together with it.

        After the first checkpoint the run no longer waits. If saving it fails, the run still waits.
        """
        yield self.files() if self.waits else {}
        self.waits = False

    def took(self, result: StepResult) -> None:
        """Count a finished step: its time and its positions."""
        self._now = time.perf_counter()
        self._positions += result.positions

    def due(self, number: int, total: int, *, always: bool) -> bool:
        """Whether to log step `number` of `total`, counted from 1."""
        now, even = time.perf_counter(), number % max(1, total // LOG_LINES) == 0
        if always or even or now - self._last >= LOG_SECONDS:
            self._last = now
            return True
        return False

    def add(
        self, result: StepResult, epoch: int, learning_rate: float, measured: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the entry of the last step, with the values in `measured`, and return it."""
        seconds = max(TICK, self._now - self._began)
        entry = {
            "step": result.step + 1,
            "epoch": epoch,
            "loss": result.loss,
            "learning_rate": learning_rate,
            "norm": result.norm,
            "seconds": round(self.seconds_before + seconds, 3),
            "tokens_per_second": round(self._positions / seconds),
            **measured,
        }
        self.entries.append(entry)
        if self.writes and not self.waits:
            with write_errors():
                append(self.path, _line(entry))
        return entry


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The entries of a metrics file. A crash may have cut its last line short: a note on stderr
    names the first line that is damaged. That line and all lines after it are left out."""
    entries: list[dict[str, Any]] = []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry and (not entries or entries[-1]["step"] < entry["step"]):
            entries.append(entry)
        elif line or number < len(lines):
            if sys.stderr is not None:
                print(f"note: {path}: line {number} is not a log entry; this line and all lines "
                      "after it are left out", file=sys.stderr)  # fmt: skip
            break
    return entries


def begins_as_log(path: Path) -> bool:
    """Whether a file can be the log of a run: it is empty, or its first line is a log entry."""
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            first = file.readline(LONGEST_LINE)
    except OSError:
        return False
    return not first or _entry(first) is not None


def _entry(line: bytes) -> dict[str, Any] | None:
    """The entry in a line; None if `Log.add` cannot have written it."""
    try:
        entry = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not entry.keys() >= ENTRY.keys():
        return None
    if any(type(value) not in (int, float) for value in entry.values()):
        return None
    for key, kind in ENTRY.items():
        whole, value = kind is int, entry[key]
        if (whole and type(value) is not int) or not abs(value) <= sys.float_info.max:
            return None
    return entry
