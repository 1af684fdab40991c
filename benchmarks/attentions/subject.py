"""A subject: an attention of a library, as a function that `check_attention` can call.

A subject declares what its documentation says. It does not repair what the library computes: it
only moves axes, and pads widths where the library wants equal ones. A call that the library does
not have raises Unsupported, and the law is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tinyattn.theory.conventions import EXPECTED, FEATURES, Unsupported

ALL = FEATURES - {"dropout"}
"""What most libraries support; `dropout` needs their own random numbers."""


@dataclass(frozen=True)
class Subject:
    """One attention.

    Args:
        name: as its documentation calls it.
        package: the distribution whose version is shown.
        f: f(q, k, v, ..), see `check_attention`.
        supports: features, see `check_attention`.
        options: its other options.
        examples: how many arguments are tried for each law.
    """

    name: str
    package: str
    f: Callable[..., Any]
    supports: frozenset[str] = EXPECTED
    options: Mapping[str, Any] = field(default_factory=dict)
    examples: int = 40


def width_of(q: Any, v: Any) -> int:
    """The width that q, k and v get if a library wants equal ones."""
    return max(q.shape[-1], v.shape[-1])


def refuse(*given: bool, why: str) -> None:
    """Raises: Unsupported if all of these are given."""
    if all(given):
        raise Unsupported(why)
