"""A law, or another check, detects a mistake in each function that it names in `under_test`."""

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from inspect import getattr_static
from types import FunctionType
from typing import Any

import modules
import numpy as np
import pytest

from tinyattn import Tensor
from tinyattn.nn import Module
from tinyattn.theory import CHECKS, Check, Lab

for name in modules.names():
    importlib.import_module(name)
MODULES = [module for name, module in sys.modules.items() if name.startswith("tinyattn.")]

MISTAKES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda a: a * 0,
    "too much": lambda a: a * 1.07 + 0.01,
    "far too much": lambda a: a * 10,
    "negative": lambda a: -a - 0.01,
}
PAIRS = [(check, function) for check in CHECKS.values() for function in check.under_test]
DRAWS = 4


def wrong(value: Any, mistake: Callable[[Any], Any]) -> Any:
    """A value of the same type and shape, with other numbers."""
    match value:
        case bool() | np.bool_():
            return not value
        case int() | np.integer():
            return int(mistake(value)) + 1
        case np.ndarray() if value.dtype == bool:
            return ~value
        case np.ndarray() if value.dtype.kind in "iu":
            return mistake(value).astype(value.dtype) + 1
        case float() | np.floating() | Fraction() | np.ndarray() | Tensor():
            return mistake(value)  # a tensor's gradients are wrong too
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(wrong(part, mistake) for part in value))
        case tuple() | list():
            return type(value)(wrong(part, mistake) for part in value)
        case dict():
            return {key: wrong(part, mistake) for key, part in value.items()}
        case Module():
            for parameter in value.parameters():
                parameter.data = mistake(parameter.data)
            return value
        case _ if dataclasses.is_dataclass(value):
            parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
            return dataclasses.replace(value, **{k: wrong(v, mistake) for k, v in parts.items()})
        case Iterator():
            return (wrong(part, mistake) for part in value)
    return value


def places(thing: Any) -> list[list[tuple[Any, str, Any]]]:
    """Where to replace it: a function in all modules at once, each method of a class alone."""
    if isinstance(thing, type):
        parts = [(thing, name, getattr_static(thing, name)) for name in dir(thing)]
        return [[part] for part in parts if isinstance(part[2], FunctionType | property | str)
                and (not part[1].startswith("_") or part[1] == "__call__")]  # fmt: skip
    classes = [c for module in MODULES for c in vars(module).values() if isinstance(c, type)]
    owners = [*MODULES, *{c for c in classes if c.__module__.startswith("tinyattn.")}]
    return [[(owner, name, value) for owner in owners
             for name, value in vars(owner).items() if value is thing]]  # fmt: skip


def broken(thing: Any, mistake: Callable[[Any], Any]) -> Any:
    """A function with a mistake in its result; for a formula, one with an additional term."""
    if isinstance(thing, str):
        return f"{thing} + C·C"
    if isinstance(thing, property):
        return property(lambda self: wrong(thing.fget(self), mistake))
    return lambda *args, **options: wrong(thing(*args, **options), mistake)


def fails(check: Check, seed: int) -> bool:
    """Whether it does not hold, or raises an exception, on one draw."""
    rng = np.random.default_rng(seed)
    drawn = {name: values.draw(rng) for name, values in check.domain.items()}
    try:
        return not check(Lab(rng), **drawn).holds
    except Exception:  # an exception is a result, too
        return True


@pytest.mark.parametrize(
    ("check", "function"), PAIRS, ids=[f"{c.name}-{f.__qualname__}" for c, f in PAIRS]
)
def test_a_broken_function_is_detected(
    check: Check, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for together in places(function):
        for mistake in MISTAKES.values():
            with monkeypatch.context() as patch:
                for owner, name, value in together:
                    patch.setattr(owner, name, broken(value, mistake))
                if any(fails(check, seed) for seed in range(DRAWS)):
                    return
    pytest.fail(f"{check.name} holds although {function.__qualname__} is wrong")
