"""Wing, report: how far is it?

A bar on stderr with the loss, the learning rate, tokens a second and the time left; nothing at all
where stderr is not a terminal.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from tinyattn.tasks.running import RunOptions


def _is_watched() -> bool:
    """Whether stderr is a terminal; it may be closed, or, in a service, not there at all."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        return False


class Progress:
    """At most one bar at a time; leaves the last one on the screen."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def began(self) -> bool:
        """Whether there was anything to count."""
        return self._bar is not None

    def watch(self, run: RunOptions) -> RunOptions:
        """`run`, with this bar told of every step."""
        return replace(run, on_start=self.start, on_step=self.step)

    def say(self, what: str) -> None:
        """What the next bar counts."""
        self._what = what

    def start(self, done: int, total: int) -> None:
        """A new bar, `done` of `total` steps full."""
        self.__exit__()
        self._bar = tqdm(total=total, initial=done, desc=self._what or None,
                         disable=not _is_watched(), dynamic_ncols=True)  # fmt: skip

    def step(self, entry: dict[str, Any]) -> None:
        """One training step, with what was logged about it, if it was."""
        if entry:
            self._bar.set_postfix_str(
                f"loss {entry['loss']:.3f} rate {entry['learning_rate']:.2g} "
                f"{entry['tokens_per_second']:,} tokens/s",
                refresh=False,
            )
        self._bar.update()

    def advance(self, count: int) -> None:
        """So many more done."""
        self._bar.update(count)
