"""Chapter 1: dispatch, the choice between a formula and a kernel.

A *formula* defines an operation: a few lines of array code that run on every device. A *kernel*
replaces a formula on one device. It is faster and must compute the same result. Kernels are in
kernels/, the engine room. A reader may skip this folder and even delete it: then only formulas run.
Kernels are added to the table below (kernels/register.py). For each call, `choose` returns the
kernel, or the formula and the reason for it. Next: operations on tensors (op.py).
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
"""Every kernel by the name of its formula and its device."""

off: Counter[str] = Counter()
"""For a formula, or "all": the number of open contexts that switch kernels off (switches.py)."""
observers: list[Callable[[Function, Function, str], Function]] = []
"""Hooks for measurements (measure/observer.py). Each receives the formula, the chosen function
and the reason for the formula ("" for a kernel), and returns the function to call."""


def choose(
    formula: Function, device: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Function, str]:
    """The function to call: the kernel and "", or the formula and the reason for it."""
    name, run, reason = formula.__name__, formula, ""
    found = KERNELS.get((name, device)) if FORMULAS.get(name) is formula else None
    if found is None:  # no kernel, or the kernel of an earlier formula of that name
        reason = "no kernel"
    elif off and ("all" in off or name in off):
        reason = "switched off"
    else:  # a caller without args asks only whether a kernel is in use
        reason = found.why_not(*args, **options) if found.why_not and args else ""
        run = formula if reason else found.run
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
