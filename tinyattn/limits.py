"""Chapter 1, continued: numbers that can be meant.

Not every number that can be typed can be meant: NaN, infinity, a width for which no computer has
memory, a seed with more bits than are used. Each of them would show far from where it was said, as
an array's error, or, worse, not at all. So whoever takes a number from outside asks here.
Next: the cores (cores.py).
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

MOST = 2**31 - 1
"""The largest count or size of one thing: what an index of a GPU's programs can hold."""
MOST_POSITIONS = 2**24
"""Of a text, and what attention makes of them: as far as float32 counts without gaps."""
MOST_LAYERS = 10_000
"""Each is many objects of Python's; the deepest that are known (DeepNet, 2022) have 1,000."""
MOST_SEED = 2**64 - 1
"""The largest seed: the random bits of dropout are mixed from 64 bits (noise.py)."""
MOST_WORKERS = 1024
"""Threads: more than any computer has cores for."""
MOST_NUMBERS = 2**45
"""Numbers of 4 bytes that fill the 2^47 bytes that a program can address on today's processors."""
LARGEST = (2 - 2**-23) * 2.0**127
"""The largest number of float32, in which models are trained."""
SMALLEST = 2.0**-126
"""The smallest above 0 that float32 keeps at full precision."""
TICK = 1e-9
"""Seconds, the least that anything is said to take: a clock may stand still, and we divide."""


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """`value` as Python's own int.

    Raises: ValueError, with the caller's `name` for it, unless it is a whole number in least..most.
    """
    number = _integer(name, value)
    if number < least:
        low = "above 0" if least == 1 else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {low}; got {brief(number)}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}; got {brief(number)}")
    return number


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number; got {brief(value)}") from None


def sizes(model: Any, *names: str) -> None:
    """Check the sizes of a model's configuration, all of which must be above 0.

    Raises: ValueError with the first of these fields that cannot be meant.
    """
    most = {"context": MOST_POSITIONS, "layers": MOST_LAYERS}
    for name in names:
        whole(name, getattr(model, name), 1, most.get(name, MOST))
    settle(model)


def seed_of(value: Any) -> int:
    """`value` as a seed. Raises: ValueError unless it is a whole number from 0 to 2^64 - 1."""
    return whole("seed", value, 0, MOST_SEED)


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
            number, largest = _integer(name, value), float(MOST)
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


def brief(value: object) -> str:
    """A value as a message shows it: short, however long or deep it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes out no whole number of more than 4300 digits
        return "a number of more than 4300 digits"
