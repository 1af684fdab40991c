"""Chapter 6: switching kernels off, so that formulas compute.

Switch kernels off to see the result of a formula, or to find out whether a kernel is wrong. A
context, the option --formulas and an environment variable do this, for all kernels or for some.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tinyattn.dispatch import FORMULAS, KERNELS, ROOMS, off
from tinyattn.names import nearest

FORMULAS_VARIABLE = "TINYATTN_FORMULAS"
"""The environment variable that switches kernels off: names with commas between, or 1 for all."""

_lock = threading.Lock()


def names_in(text: str) -> list[str]:
    """The names in the value of a variable or an option; 1 means all, 0 means none."""
    return ["all" if w == "1" else w for w in text.replace(",", " ").split() if w != "0"]


def formulas(*names: str) -> AbstractContextManager[None]:
    """A context in which all formulas, or the named ones, compute instead of their kernels.

    A formula without a kernel computes in any case. The context applies to all threads, because
    they share the work. A result that was computed inside keeps the vjp of its formula, also for a
    `backward` after the context.

    Args: names: names of formulas, each a string; a string may contain several, see `names_in`. The
        name of a room, such as numba, switches off all kernels of that room.
    Raises: ValueError for an unknown name, TypeError for a name that is not a string.
    """
    with_kernels = {name for name, _ in KERNELS}
    rooms = {room for several in ROOMS.values() for room in several} | {r for _, r in KERNELS}
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"formulas: give the names one by one: formulas('gelu', 'linear'); got {name!r}"
            )
    mine = [one for name in names for one in names_in(name)]
    for one in mine:
        if one not in FORMULAS.keys() | with_kernels | rooms | {"all"}:
            raise ValueError(f"there is no formula {one!r}{nearest(one, with_kernels)}")
    return _switched(mine if names else ["all"])


@contextmanager
def _switched(mine: list[str]) -> Iterator[None]:
    with _lock:
        off.update(mine)
    try:
        yield
    finally:
        with _lock:
            off.subtract(mine)
            for name in {name for name in mine if not off[name]}:
                del off[name]


def switched_off() -> list[str]:
    """The names whose kernels are switched off; "all" if every kernel is."""
    return sorted(off)


def kernels_in_use(device: str) -> list[str]:
    """The rooms whose kernels can compute on this device, in the order in which they are tried."""
    found = {room for _, room in KERNELS} - off.keys()
    return [room for room in ROOMS.get(device, (device,)) if room in found and "all" not in off]


off.update(names_in(os.environ.get(FORMULAS_VARIABLE, "")))
