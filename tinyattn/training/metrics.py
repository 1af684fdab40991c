"""Chapter 8, continued: what a run writes down while it trains, metrics.jsonl.

One JSON object a line, appended as it happens, so that a crash costs a line at most.
Next: being asked to stop.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tinyattn.limits import TICK
from tinyattn.training.step import StepResult

METRICS = "metrics.jsonl"
LOG_SECONDS = 1.0  # a line at least this often...
LOG_LINES = 400  # ...or at this many even steps of the run, whichever is more often


class Log:
    """The metrics of a run. A resumed run drops what it is about to do again.

    Args:
        folder: where the file lies.
        start: the step to go on from.
        writes: whether there shall be a file; only the first of several processes has one.
    """

    def __init__(self, folder: Path, start: int, *, writes: bool = True) -> None:
        self.path, self.writes = folder / METRICS, writes
        known = read_metrics(self.path) if start else []
        self.entries = [entry for entry in known if entry["step"] <= start]
        self.seconds_before = self.entries[-1]["seconds"] if self.entries else 0.0
        if writes:
            text = "".join(json.dumps(entry) + "\n" for entry in self.entries)
            self.path.write_text(text, encoding="utf-8")
        self._began = self._now = time.perf_counter()
        self._last = 0.0
        self._positions = 0

    def took(self, result: StepResult) -> None:
        """A step was taken: from here on its time and its positions count."""
        self._now = time.perf_counter()
        self._positions += result.positions

    def due(self, number: int, total: int, *, always: bool) -> bool:
        """Whether step `number` of `total`, counted from 1, is one to write about."""
        now, even = time.perf_counter(), number % max(1, total // LOG_LINES) == 0
        if always or even or now - self._last >= LOG_SECONDS:
            self._last = now
            return True
        return False

    def add(
        self, result: StepResult, epoch: int, learning_rate: float, measured: dict[str, Any]
    ) -> dict[str, Any]:
        """Write a line about the last step, and return it."""
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
        if self.writes:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        return entry


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The entries of a metrics file; a last line that a crash cut short is left out."""
    entries = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
    return entries
