"""Chapter 3: checking numbers from users.

Some numbers that a user can type make no sense: a width for which no computer has memory, or a seed
with more bits than are used. Without a check the error would appear far from its cause, or never.
So code that takes a number from a user calls these functions. Next: a counter-based random number
generator for dropout (rng.py).
"""

from __future__ import annotations

import operator
import reprlib
from typing import Any

MOST = 2**31 - 1
"""The largest count or size: GPU kernels use 32-bit signed integers as indices."""
MOST_POSITIONS = 2**24
"""The maximum length of a sequence, and the maximum of an option of an attention type, such as a
block size: float32 can represent all integers up to 2^24."""
MOST_SEED = 2**64 - 1
"""The largest seed: dropout uses 64 bits of a seed (rng.py)."""
MOST_WORKERS = 1024
"""The maximum number of threads. The usual number is that of the cores, which is far smaller."""
TICK = 1e-9
"""The least duration, in seconds: a clock may measure 0, and we divide by durations."""


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """`value` as a Python int.

    Raises: ValueError unless it is a whole number in least..most; the message calls it `name`.
    """
    number = integer(name, value)
    if number < least:
        low = "above 0" if least == 1 else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {low}; got {brief(number)}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}; got {brief(number)}")
    return number


def integer(name: str, value: Any) -> int:
    """`value` as a Python int. Raises: ValueError unless it is a whole number and not a bool."""
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
    """A short form of a value for error messages, however long or deep the value is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        return "a number of more than 4300 digits"
