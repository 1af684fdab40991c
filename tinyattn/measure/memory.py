"""Engine room, measuring: how much memory a part of a program uses."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def traced_memory() -> Iterator[Callable[[], tuple[int, int]]]:
    """A context in which tracemalloc traces what Python and NumPy allocate.

    Yields: a function. It returns the bytes in use now, and the peak since the context began, both
        minus the bytes in use at its beginning.

    Python has only one peak: if the caller traces already, its peak starts again here.
    """
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]

    def grown() -> tuple[int, int]:
        now, peak = tracemalloc.get_traced_memory()
        return now - before, peak - before

    try:
        yield grown
    finally:
        if ours:
            tracemalloc.stop()
