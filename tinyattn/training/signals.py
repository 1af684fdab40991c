"""Chapter 6: being asked to stop.

Somebody presses Ctrl-C, closes the terminal, or ends the job from outside: the system sends the
process a signal, which by default would end it at once. A run notes it instead, finishes the step
that it is in, keeps a checkpoint and stops. A signal that was ignored when the run began, as behind
nohup, stays ignored; one that the program around the run handles is that program's.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

STOPS: list[int] = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP")
                    if name in signal.Signals.__members__]  # fmt: skip
"""Ctrl-C; what `kill` and schedulers send; and what a terminal that is closed sends, but not on
Windows."""


class Interrupted(Exception):
    """Somebody asked to stop; a checkpoint was kept.

    Args: number: of the signal.
    """

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number


@contextmanager
def stop_asked() -> Iterator[Callable[[], int]]:
    """A context in which these signals are noted, where that is nobody else's business.

    It gives a function: the number of the first signal that came, or 0. A second Ctrl-C raises
    KeyboardInterrupt and does not wait; the others may come twice, as a terminal that is closed and
    its shell both send one. Afterwards all signals do what they did before.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        if number == signal.SIGINT and number in came:
            raise KeyboardInterrupt
        came.append(number)

    before: dict[int, Any] = {}
    try:
        for number in STOPS:
            handler = signal.getsignal(number)  # None if it is not Python's
            pythons = handler is signal.default_int_handler and number == signal.SIGINT
            if handler is signal.SIG_DFL or pythons:
                with suppress(ValueError):  # in the main thread alone Python handles signals
                    signal.signal(number, note)
                    before[number] = handler
        yield lambda: came[0] if came else 0
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is note:  # or somebody has taken it over since
                signal.signal(number, handler)


def named(number: int) -> str:
    """What to call a signal behind "stopped": Ctrl-C needs no name."""
    return "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
