"""Chapter 1: formula or kernel, or who computes.

What an operation means stands in this book as a *formula*: some lines of array code that run
wherever arrays do. What makes it fast stands in *kernels*, in an engine room that a reader may skip
and even delete. A kernel takes a formula's place on one device and must give the same. This table
is where the book knows that kernels may exist: they enter themselves here, and `choose` says for
each call who computes, and why not a kernel. Next: how a function of arrays becomes an operation on
tensors (op.py).
"""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

FORMULAS_VARIABLE = "TINYATTN_FORMULAS"
"""The environment variable that switches kernels off: names by comma; or 1, for all."""


def names_in(text: str) -> list[str]:
    """The names that a variable or an option lists; 1 is for all, 0 for none."""
    return ["all" if w == "1" else w for w in text.replace(",", " ").split() if w != "0"]


_off = Counter(names_in(os.environ.get(FORMULAS_VARIABLE, "")))
_lock = threading.Lock()


def kernel(name: str, device: str, why_not: Function | None = None) -> Callable[[F], F]:
    """Decorator: this function is the kernel of the formula `name` on a device.

    Args: why_not: says why the kernel cannot take these arguments, or "". It looks at shapes,
        precisions and strides only, so that a call is computed the same way every day.
    """

    def enter(run: F) -> F:
        if (name, device) in KERNELS:
            raise ValueError(f"kernel: there is one of {name!r} on {device!r} already")
        KERNELS[name, device] = Kernel(run, why_not)
        return run

    return enter


def choose(
    formula: Function, device: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Function, str]:
    """Who computes this call: the kernel and ""; or the formula, and why not a kernel."""
    name = formula.__name__
    found = KERNELS.get((name, device)) if FORMULAS.get(name) is formula else None
    if found is None:  # none was made, or it is for another formula of that name
        return formula, "no kernel"
    if _off and ("all" in _off or name in _off):
        return formula, "switched off"
    reason = found.why_not(*args, **options) if found.why_not and args else ""
    return (formula, reason) if reason else (found.run, "")


@contextmanager
def formulas(*names: str) -> Iterator[None]:
    """A context in which formulas compute and no kernels: all of them, or those that are named.

    It holds in all threads, since they share the work. What is computed inside keeps its way back:
    `backward` after the context is by formulas too. Raises: ValueError for an unknown name.
    """
    for name in {*names} - FORMULAS.keys() - {"all"}:
        known = ", ".join(sorted(FORMULAS))
        raise ValueError(f"formulas: there is no formula {name!r}; there are {known}")
    mine = names or ("all",)
    with _lock:
        _off.update(mine)
    try:
        yield
    finally:
        with _lock:
            _off.subtract(mine)
            for name in {name for name in mine if not _off[name]}:
                del _off[name]


def switched_off() -> list[str]:
    """The names whose kernels are switched off; "all" for every one."""
    return sorted(_off)


def dispatched(formula: F) -> F:
    """Decorator: a function of an array module and arrays that may have kernels, but is no op."""
    FORMULAS.setdefault(formula.__name__, formula)

    @functools.wraps(formula)
    def call(xp: Any, *args: Any, **options: Any) -> Any:
        return choose(formula, device_name(xp), (xp, *args), options)[0](xp, *args, **options)

    return call  # type: ignore[return-value]
