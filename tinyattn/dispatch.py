"""Chapter 1: formula or kernel, or who computes.

What an operation means stands in this book as a *formula*: some lines of array code that run
wherever arrays do. What makes it fast stands in *kernels*, in an engine room that a reader may skip
and even delete. A kernel takes a formula's place on one device and must give the same. This table
is where the book knows that kernels may exist: they enter themselves here (kernels/table.py), and
`choose` says for each call who computes, and why not a kernel. Next: how a function of arrays
becomes an operation on tensors (op.py).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from tinyattn.backend import device_name

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class Kernel(NamedTuple):
    """What may stand in for a formula on one device."""

    run: Function  # it has the formula's signature
    why_not: Function | None  # the same arguments -> why it cannot take them, or ""


FORMULAS: dict[str, Function] = {}
"""Every formula by name, the first one of it. `@op` enters them, and `@dispatched`."""
KERNELS: dict[tuple[str, str], Kernel] = {}
"""Every kernel by the name of its formula and the device."""

off: Counter[str] = Counter()
"""Formulas whose kernels are switched off, "all" for every one; how often (switches.py)."""
observers: list[Callable[[Function, Function, str], Function]] = []
"""Who looks on (measure/observer.py): each is given a formula, who computes and why not a kernel,
and what it makes of these computes."""


def choose(
    formula: Function, device: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Function, str]:
    """Who computes this call: the kernel and ""; or the formula, and why not a kernel."""
    name, run, reason = formula.__name__, formula, ""
    found = KERNELS.get((name, device)) if FORMULAS.get(name) is formula else None
    if found is None:  # none was made, or it is for another formula of that name
        reason = "no kernel"
    elif off and ("all" in off or name in off):
        reason = "switched off"
    elif not (found.why_not and args and (reason := found.why_not(*args, **options))):
        run = found.run
    for observer in observers:  # hardly ever one
        run = observer(formula, run, reason)
    return run, reason


def dispatched(formula: F) -> F:
    """Decorator: a function of an array module and arrays that may have kernels, but is no op."""
    FORMULAS.setdefault(formula.__name__, formula)

    @functools.wraps(formula)
    def call(xp: Any, *args: Any, **options: Any) -> Any:
        return choose(formula, device_name(xp), (xp, *args), options)[0](xp, *args, **options)

    return call  # type: ignore[return-value]
