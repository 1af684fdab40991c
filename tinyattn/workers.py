"""Chapter 6: threads that share the work.

Computations that do not depend on one another can run in any order, or at the same time. In this
book one thread runs them one after the other. The engine room (`parallel/`) may replace the
functions of this file and share the work over threads. The results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tinyattn.services import service


class NoThreads(Exception):
    """More than one worker was requested, but there is only one thread."""


def check_alone(workers: int | None) -> None:
    """Raises: NoThreads if more than one worker is requested."""
    if (workers or 1) > 1:
        raise NoThreads(
            f"workers {workers}: only tinyattn/parallel has threads, and it was deleted or is "
            "switched off; leave workers out"
        )


@service
def side_by_side(
    xp: Any, function: Callable[[Any], Any], items: Iterable[Any], workers: int | None = None
) -> Iterator[Any]:
    """The results of `function` for each item, in the order of the items.

    Args: workers: largest number of threads; by default a number that suits this device.
    Raises: NoThreads for more than one worker if there are no threads.
    """
    check_alone(workers)
    return map(function, items)


@service
def one_thread(xp: Any) -> AbstractContextManager[None]:
    """A context in which one thread computes a matrix product, which suits small matrices."""
    return nullcontext()


@service
def keep_freed_memory(xp: Any) -> None:
    """Ask the system to keep memory that this process frees for its next arrays, if it can."""


@service
def threads_and_blas(xp: Any) -> tuple[int, str]:
    """The default number of threads, and the BLAS library for matrix products, if known."""
    return 1, "unknown"
