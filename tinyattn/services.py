"""Chapter 6: what the engine room may do for the book, besides computing.

Who shares the work, which process writes, how memory is kept: none of this changes a number that
comes out, but for rounding, so these functions are no formulas (dispatch.py). The book says what
each of them means where nobody helps; a room that is there puts its own in the place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tinyattn.backend import device_name
from tinyattn.dispatch import Function

F = TypeVar("F", bound=Function)

BOOK: dict[str, Function] = {}
"""Every service by name: what it means where nobody helps."""
SERVICES: dict[tuple[str, str], Function] = {}
"""By the name of a function of the book and the device, what takes its place."""


def service(function: F) -> F:
    """Decorator: a function of an array module, and more, whose place may be taken."""
    BOOK[function.__name__] = function

    @functools.wraps(function)
    def call(xp: Any, *args: Any, **options: Any) -> Any:
        run = SERVICES.get((function.__name__, device_name(xp)), function)
        return run(xp, *args, **options)

    return call  # type: ignore[return-value]


def serves(*devices: str) -> Callable[[F], F]:
    """Decorator: this function takes the place of the book's of the same name on these devices."""

    def enter(function: F) -> F:
        for device in devices:
            SERVICES[function.__name__, device] = function
        return function

    return enter
