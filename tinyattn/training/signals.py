"""Chapter 6: stopping a run by a signal.

After Ctrl-C, when the terminal is closed, or when the job is ended from outside, the system sends
the process a signal. By default the signal ends the process at once. A run records it instead,
finishes the current step, saves a checkpoint and stops. A signal that was ignored when the run
began, as under nohup, stays ignored. A signal that the calling program handles is left to it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

STOPS: list[int] = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP")
                    if name in signal.Signals.__members__]  # fmt: skip
"""Ctrl-C sends SIGINT, `kill` and schedulers send SIGTERM, and a terminal that is closed sends
SIGHUP, which Windows does not have."""


class Interrupted(Exception):
    """A signal stopped the run; a checkpoint was saved.

    Args: number: number of the signal.
    """

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number


@contextmanager
def stop_requested() -> Iterator[Callable[[], int]]:
    """A context manager that records these signals, except those that the caller handles.

    It yields a function that returns the number of the first signal that arrived, or 0. A second
    Ctrl-C raises KeyboardInterrupt at once. The other signals may arrive twice, since a terminal
    that is closed and its shell both send one. At the end all signals get their old handlers back.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        if number == signal.SIGINT and number in came:
            raise KeyboardInterrupt
        came.append(number)

    before: dict[int, Any] = {}
    try:
        for number in STOPS:
            handler = signal.getsignal(number)  # None if it was not set from Python
            pythons = handler is signal.default_int_handler and number == signal.SIGINT
            if handler is signal.SIG_DFL or pythons:
                with suppress(ValueError):  # Python sets handlers in the main thread only
                    signal.signal(number, note)
                    before[number] = handler
        yield lambda: came[0] if came else 0
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is note:  # unless other code has set its own meanwhile
                signal.signal(number, handler)


def named(number: int) -> str:
    """The name of a signal for a message after "stopped"; empty for Ctrl-C."""
    return "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
