"""Chapter 5: settings whose numbers can be meant.

What decides a result stands in dataclasses, whose numbers come from files and command lines. Their
fields are checked here, all in the same words. Next: span corruption, the exercise of pretraining
(data/corruption.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

from tinyattn.limits import MOST, MOST_POSITIONS, brief, integer, whole

MOST_LAYERS = 10_000
"""Each is many objects of Python's; the deepest that are known (DeepNet, 2022) have 1,000."""
MOST_NUMBERS = 2**45
"""Numbers of 4 bytes that fill the 2^47 bytes that a program can address on today's processors."""
LARGEST = (2 - 2**-23) * 2.0**127
"""The largest number of float32, in which models are trained."""
SMALLEST = 2.0**-126
"""The smallest above 0 that float32 keeps at full precision."""


def sizes(model: Any, *names: str) -> None:
    """Check the sizes of a model's configuration, all of which must be above 0.

    Raises: ValueError with the first of these fields that cannot be meant.
    """
    most = {"context": MOST_POSITIONS, "layers": MOST_LAYERS}
    for name in names:
        whole(name, getattr(model, name), 1, most.get(name, MOST))
    settle(model)


def settle(
    settings: Any,
    above: Collection[str] = (),
    most: Mapping[str, float] | None = None,
    *,
    kept: Collection[str] = (),
) -> None:
    """Check the numbers of a settings dataclass, and make them Python's own, as JSON needs them.

    No setting is below 0, and a count is at most MOST. A real number is finite, also in float32.

    Args:
        settings: a frozen dataclass.
        above: the fields that must be above 0, also in float32.
        most: the largest numbers of fields that end earlier.
        kept: the fields that float32 must not take for 0, unless they are.
    Raises: ValueError with the name of the first field that cannot be meant.
    """
    for field in fields(settings):
        name, value = field.name, getattr(settings, field.name)
        number: float
        if field.type == "int":
            number, largest = integer(name, value), float(MOST)
        elif field.type == "float":
            number, largest = _real(name, value), LARGEST
        else:
            continue
        largest = (most or {}).get(name, largest)
        lost = 0 < number < SMALLEST and (name in above or name in kept)
        if not 0 <= number < math.inf or lost or (number == 0 and name in above):  # or NaN
            bound = "above 0" if name in above else "0, or above 0" if lost else "at least 0"
            real = field.type == "float" and name not in above
            finite = ", also in float32" if lost else " and finite" * (number == math.inf or real)
            raise ValueError(f"{name} must be {bound}{finite}; got {brief(value)}")
        if number > largest:
            raise ValueError(f"{name} must be at most {largest:.10g}; got {brief(value)}")
        object.__setattr__(settings, name, number)


def _real(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number; got {brief(value)}")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return math.inf


def check_numbers(what: str, count: int) -> None:
    """Raises: ValueError if no computer could hold so many numbers; `what` says what they are."""
    if count > MOST_NUMBERS:
        raise ValueError(
            f"{what}: {brief(count)} numbers, more than the 2^45 that a computer can address; "
            "take smaller sizes"
        )
