"""Chapter 1: dispatch, the choice between a formula and a kernel.

A *formula* defines an operation: a few lines of array code that run on every device. A *kernel*
replaces it on one device: it is faster and must compute the same result. Kernels are in kernels/,
the engine room. A reader may skip this folder, and even delete it: then only formulas run. `choose`
finds the kernel of a call in the table below, or why there is none. Next: operations (op.py).
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
    """A function that replaces a formula on one device."""

    run: Function  # it has the formula's signature
    why_not: Function | None  # the same arguments -> why the kernel cannot take them, or ""


FORMULAS: dict[str, Function] = {}
"""Every formula by name. `@op` and `@dispatched` add it, unless an earlier one has that name."""
KERNELS: dict[tuple[str, str], Kernel] = {}
"""Every kernel by the name of its formula and its room: a device, or one that ROOMS lists."""
ROOMS = {"cpu": ("numba", "cpu")}  # in this order; the first kernel that takes a call computes it

off: Counter[str] = Counter()
"""For a formula, or "all": the number of open contexts that switch kernels off (switches.py)."""
observers: list[Callable[[Function, Function, str], Function]] = []
"""Hooks: (formula, chosen function, reason for the formula or "") -> the function to call."""


def choose(
    formula: Function, device: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Function, str]:
    """The function to call: the kernel and "", or the formula and the reason for it."""
    name, run, reason = formula.__name__, formula, "no kernel"
    for room in ROOMS.get(device, (device,)) if FORMULAS.get(name) is formula else ():
        found = KERNELS.get((name, room))
        if found and off and not off.keys().isdisjoint(("all", name, room)):
            reason = "switched off"
        elif found:  # a caller without args asks only whether a kernel is in use
            reason = found.why_not(*args, **options) if found.why_not and args else ""
            if not reason:
                run = found.run
                break
    for observer in observers:  # usually there is none
        run = observer(formula, run, reason)
    return run, reason


def dispatched(formula: F) -> F:
    """Decorator for a function of arrays that may have kernels. It is no op: it has no vjp."""
    FORMULAS.setdefault(formula.__name__, formula)

    @functools.wraps(formula)
    def call(xp: Any, *args: Any, **options: Any) -> Any:
        return choose(formula, device_name(xp), (xp, *args), options)[0](xp, *args, **options)

    return call  # type: ignore[return-value]
