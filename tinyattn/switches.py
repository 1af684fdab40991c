"""Chapter 6: computing by formulas where there are kernels.

To see what a formula gives, or whether a kernel is at fault, kernels can be switched off, all or
some: by a context, by the option --formulas, by an environment variable.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tinyattn.dispatch import FORMULAS, KERNELS, off
from tinyattn.names import nearest

FORMULAS_VARIABLE = "TINYATTN_FORMULAS"
"""The environment variable that switches kernels off: names by comma; or 1, for all."""

_lock = threading.Lock()


def names_in(text: str) -> list[str]:
    """The names that a variable or an option lists; 1 is for all, 0 for none."""
    return ["all" if w == "1" else w for w in text.replace(",", " ").split() if w != "0"]


def formulas(*names: str) -> AbstractContextManager[None]:
    """A context in which formulas compute and no kernels: all of them, or those that are named.

    A formula that has no kernel computes in any case. The context holds in all threads, since they
    share the work. What is computed inside keeps its way back: `backward` after the context is by
    formulas too.

    Args: names: one by one, or several in a text, as `names_in` reads it.
    Raises: ValueError for an unknown name, TypeError for what is no name.
    """
    with_kernels = {name for name, _ in KERNELS}
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"formulas: give the names one by one: formulas('gelu', 'linear'); got {name!r}"
            )
    mine = [one for name in names for one in names_in(name)]
    for one in mine:
        if one not in FORMULAS.keys() | with_kernels | {"all"}:
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
    """The names whose kernels are switched off; "all" for every one."""
    return sorted(off)


off.update(names_in(os.environ.get(FORMULAS_VARIABLE, "")))
