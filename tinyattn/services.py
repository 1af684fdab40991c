"""Chapter 6: services, functions that the engine room may replace.

They decide which threads share the work, which process writes files, how memory is kept, and how
the next token is computed. They change no result, except for rounding, so they are no formulas
(dispatch.py). The book has a plain version of each service. A folder of the engine room, if it is
there, may replace it by its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tinyattn.backend import device_name
from tinyattn.dispatch import Function

F = TypeVar("F", bound=Function)

BOOK: dict[str, Function] = {}
"""The book's plain version of every service, by its name."""
SERVICES: dict[tuple[str, str], Function] = {}
"""The replacements: (name of the service, device) -> function."""


def service(function: F) -> F:
    """Decorator: a function that may be replaced; its first argument is the array module."""
    BOOK[function.__name__] = function

    @functools.wraps(function)
    def call(xp: Any, *args: Any, **options: Any) -> Any:
        run = SERVICES.get((function.__name__, device_name(xp)), function)
        return run(xp, *args, **options)

    return call  # type: ignore[return-value]


def serves(*devices: str) -> Callable[[F], F]:
    """Decorator: this function replaces the service of the same name on these devices."""

    def enter(function: F) -> F:
        for device in devices:
            SERVICES[function.__name__, device] = function
        return function

    return enter
