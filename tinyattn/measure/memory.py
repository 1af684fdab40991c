"""Engine room, measuring: how much memory some code takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def traced_memory() -> Iterator[Callable[[], tuple[int, int]]]:
    """A context in which Python and NumPy report what they allocate, to whoever else asks as well.

    It gives a function: the bytes in use now, and at most since the context began, beyond those
    that were in use then. Python has only one peak: the peak of a caller that was tracing already
    begins anew here.
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
