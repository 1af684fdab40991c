"""Chapter 6: who else could do a part of the work?

Things that do not depend on one another can be computed in any order, or at the same time. In this
book they are computed one after the other, by one thread. The engine room (`parallel/`) may share
them over threads; each function here is what its kernel means, so the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tinyattn.services import service


class NoThreads(Exception):
    """More than one worker was asked for, where one thread does everything."""


def check_alone(workers: int | None) -> None:
    """Raises: NoThreads if more than one worker was asked for."""
    if (workers or 1) > 1:
        raise NoThreads(
            f"workers {workers}: only tinyattn/parallel has threads, and it was deleted or is "
            "switched off; leave workers out"
        )


@service
def side_by_side(
    xp: Any, function: Callable[[Any], Any], items: Iterable[Any], workers: int | None = None
) -> Iterator[Any]:
    """`function` of each item, in the order of the items.

    Args: workers: how many threads may share them; by default as many as do well on this device.
    Raises: NoThreads for more than 1, where there are none.
    """
    check_alone(workers)
    return map(function, items)


@service
def one_thread(xp: Any) -> AbstractContextManager[None]:
    """A context inside which a matrix product is computed by one thread, which suits small ones."""
    return nullcontext()


@service
def keep_freed_memory(xp: Any) -> None:
    """Ask the system to keep freed memory of this process for its next arrays, where it can."""


@service
def cores_and_blas(xp: Any) -> tuple[int, str]:
    """How many threads share the work by default, and the library of matrix products, if known."""
    return 1, "unknown"
