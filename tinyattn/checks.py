"""Chapter 5: checking settings.

All settings that decide a result are fields of dataclasses. Their values come from files and
command lines, where NaN and infinity can be typed too. The functions here check them, with the same
error messages for all. Next: span corruption, the objective of pretraining (data/corruption.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

from tinyattn.limits import MOST, MOST_POSITIONS, brief, integer, whole

MOST_LAYERS = 10_000
"""Each layer is many Python objects; the deepest known models (DeepNet, 2022) have 1,000 layers."""
MOST_NUMBERS = 2**45
"""The most elements of 4 bytes: today's processors let a program address 2^47 bytes."""
LARGEST = (2 - 2**-23) * 2.0**127
"""The largest float32, the dtype in which models are trained."""
SMALLEST = 2.0**-126
"""The smallest float32 above 0 that has all its digits (a normal number)."""


def sizes(model: Any, *names: str) -> None:
    """Check the sizes in a model's configuration, all of which must be above 0.

    Raises: ValueError with the name of the first field that is out of range.
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
    """Check the numbers in a settings dataclass, and turn them into Python's types, as JSON needs.

    No number may be below 0. An integer is at most MOST. A float is finite, also in float32.

    Args:
        settings: a frozen dataclass.
        above: the fields that must be above 0, also in float32.
        most: fields with a smaller upper limit, and that limit.
        kept: the fields that must not round to 0 in float32 unless they are 0.
    Raises: ValueError with the name of the first field that is out of range.
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
    except OverflowError:  # an integer too large for float64
        return math.inf


def check_numbers(what: str, count: int) -> None:
    """Raises: ValueError if no computer can hold so many elements; `what` names them."""
    if count > MOST_NUMBERS:
        raise ValueError(
            f"{what}: {brief(count)} elements, more than the 2^45 that a computer can address; "
            "take smaller sizes"
        )
