"""Chapter 1d: what is another program on a GPU.

On a GPU every array function that is called costs some microseconds, whatever the size, and reads
and writes all its numbers in memory. Where a formula takes many of them it has a twin: a function
that launches programs in CUDA, few for each formula. The formula stays where it is, in plain array
functions, for readers and for the CPU; the twins stand together in cuda/, which a reader without a
GPU can skip, and must give the same. Next: how a gradient finds its way back (graph.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyattn.backend import on_gpu

TWINS: dict[str, Callable[..., Any]] = {}
"""By the name of a formula, the function that takes its place on a GPU."""


def twin_of(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: this function takes the place of the formula `name` on a GPU.

    It takes the same arguments. It may be narrower: what it cannot do, it hands to the formula.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        TWINS[name] = function
        return function

    return enter


def fastest(xp: Any, name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula, or its twin if there is one and `xp` is a GPU's array module."""
    return TWINS.get(name, formula) if on_gpu(xp) else formula
