"""Chapter 3: numbers that can be meant.

Not every number that can be typed can be meant: NaN, infinity, a width for which no computer has
memory, a seed with more bits than are used. Each of them would show far from where it was said, as
an array's error, or, worse, not at all. So whoever takes a number from outside asks here. Next:
random bits that need no state (noise.py).
"""

from __future__ import annotations

import operator
import reprlib
from typing import Any

MOST = 2**31 - 1
"""The largest count or size of one thing: what an index of a GPU's programs can hold."""
MOST_POSITIONS = 2**24
"""Of a text, and what attention makes of them: as far as float32 counts without gaps."""
MOST_SEED = 2**64 - 1
"""The largest seed: the random bits of dropout are mixed from 64 bits (noise.py)."""
MOST_WORKERS = 1024
"""Threads: more than any computer has cores for."""
TICK = 1e-9
"""Seconds, the least that anything is said to take: a clock may stand still, and we divide."""


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """`value` as Python's own int.

    Raises: ValueError, with the caller's `name` for it, unless it is a whole number in least..most.
    """
    number = integer(name, value)
    if number < least:
        low = "above 0" if least == 1 else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {low}; got {brief(number)}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}; got {brief(number)}")
    return number


def integer(name: str, value: Any) -> int:
    """`value` as Python's own int. Raises: ValueError, with its `name`, if it is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number; got {brief(value)}") from None


def seed_of(value: Any) -> int:
    """`value` as a seed. Raises: ValueError unless it is a whole number from 0 to 2^64 - 1."""
    return whole("seed", value, 0, MOST_SEED)


def brief(value: object) -> str:
    """A value as a message shows it: short, however long or deep it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes out no whole number of more than 4300 digits
        return "a number of more than 4300 digits"
