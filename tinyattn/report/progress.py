"""Wing, report: a progress bar.

The bar on stderr shows the loss, the learning rate, tokens per second and the time left. It is
shown only if stderr is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from tinyattn.tasks.running import RunOptions


def _on_a_terminal() -> bool:
    """Whether stderr is a terminal; it may also be closed or, in a service, missing."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        return False


class Progress:
    """Progress bars, at most one at a time; the last one stays on the screen."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the bar, so that what is printed next begins on a line of its own."""
        if self._bar is not None:
            self._bar.close()

    @property
    def began(self) -> bool:
        """Whether a bar was started."""
        return self._bar is not None

    def attach(self, run: RunOptions) -> RunOptions:
        """A copy of `run` that updates this bar after every step."""
        return replace(run, on_start=self.start, on_step=self.step)

    def say(self, what: str) -> None:
        """Set the text before the next bar."""
        self._what = what

    def start(self, done: int, total: int) -> None:
        """Start a new bar, at `done` of `total` steps."""
        self.close()
        self._bar = tqdm(total=total, initial=done, desc=self._what or None,
                         disable=not _on_a_terminal(), dynamic_ncols=True)  # fmt: skip

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        """Start a new bar with a text, and return the function that advances it."""
        self.say(what)
        self.start(0, total)
        return self.advance

    def step(self, entry: dict[str, Any]) -> None:
        """Count one training step; `entry` is its log entry, or empty."""
        if entry:
            self._bar.set_postfix_str(
                f"loss {entry['loss']:.3f} lr {entry['learning_rate']:.2g} "
                f"{entry['tokens_per_second']:,} tokens/s",
                refresh=False,
            )
        self._bar.update()

    def advance(self, count: int) -> None:
        """Count `count` more steps or items."""
        self._bar.update(count)
