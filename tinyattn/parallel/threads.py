"""Engine room, parallel: threads on the cores of this computer.

NumPy uses one core, except in matrix products, where its BLAS uses all; small products gain little
from this. So here each core runs one worker thread, with its own part of the work and its own
matrix products. This file has the settings of the interpreter, the BLAS and the C library for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar

from tinyattn.backend import device_name
from tinyattn.limits import MOST_WORKERS, whole
from tinyattn.services import serves

P = ParamSpec("P")
R = TypeVar("R")

SWITCH_SECONDS = 2e-4
"""Seconds for which a thread may keep the interpreter while another waits for it. With two workers,
steps became faster from 5 ms (Python's default) down to 0.5 ms, and not below."""


def on_gpu(xp: Any) -> bool:
    """Whether the array module is that of a GPU, whose calls start work and do not wait for it."""
    return device_name(xp) == "cuda"


def available_cores() -> int:
    """The number of cores that this process may use; the machine may have more."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas() -> str:
    """The library of matrix products, its version, and the processors its kernels are written for.

    Matrix products are most of a step, and kernels for wider registers can take half the time.
    """
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    if not pools:
        return "unknown"
    kernels = f" ({pools[0]['architecture']})" if pools[0].get("architecture") else ""
    return f"{pools[0]['internal_api']} {pools[0].get('version')}{kernels}"


class ForAWhile:
    """A setting of the whole process that contexts change for a while.

    Contexts may overlap and end in any order. Each one keeps a function that restores the state it
    found. A context that ends before later ones gives its function to the next one, which found a
    state that was changed already. So the last context restores the state that the first one found.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change, self._lock = change, threading.Lock()
        self._users: dict[object, Callable[[], None]] = {}  # the function of each, oldest first

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A context in which the setting is changed."""
        me = object()
        with self._lock:
            self._users[me] = self._change()
        try:
            yield
        finally:
            with self._lock:
                users = [*self._users]
                later = users[users.index(me) + 1 :]
                restore = self._users.pop(me)
                if later:
                    self._users[later[0]] = restore
                else:
                    restore()


def _limit_blas() -> Callable[[], None]:
    from threadpoolctl import threadpool_limits

    limited = threadpool_limits(limits=1, user_api="blas")
    return lambda: limited.restore_original_limits()


def _switch_sooner() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    # Python cuts off fractions of a microsecond, and may give a number just below a whole one.
    return lambda: sys.setswitchinterval(before + 5e-7)


_blas, _switching = ForAWhile(_limit_blas), ForAWhile(_switch_sooner)


def one_blas_thread() -> AbstractContextManager[None]:
    """A context in which a matrix product uses one thread: more do not help a small product."""
    return _blas()


@contextmanager
def worker_threads() -> Iterator[None]:
    """A context for worker threads, side by side on the cores.

    Each thread computes its own matrix products. It is faster to split the batch over threads than
    to split each product, after which all threads wait for one another; and a core that is busy
    with something else delays less. A thread that returns from NumPy also gets the interpreter
    soon; by default another thread may keep it for 5 ms, the time of many short operations.
    """
    with _switching(), one_blas_thread():
        yield


class AtOnce(Executor):
    """An executor without threads: `submit` and `map` compute in the thread that calls them."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """The result or the error of a call, which ends before this returns."""
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., R], *iterables: Any, **options: Any) -> Iterator[R]:
        """The results in order; each is computed when it is asked for, so that progress shows."""
        return map(fn, *iterables)


def executor(workers: int, *, apart: bool = False) -> Executor:
    """An executor with `workers` threads; for one worker the calling thread is enough.

    Python in a browser can start no thread.

    Args: apart: whether a single worker needs a thread of its own, because the caller goes on.
    """
    return ThreadPoolExecutor(workers) if apart or workers > 1 else AtOnce()


@serves("cpu", "cuda")
def side_by_side(
    xp: Any, function: Callable[[Any], Any], items: Iterable[Any], workers: int | None = None
) -> Iterator[Any]:
    """`function` of each item, in the order of the items; `workers` threads share the items."""
    if workers is None:
        workers = 1 if on_gpu(xp) else min(available_cores(), MOST_WORKERS)
    return _shared(function, items, whole("workers", workers, 1, MOST_WORKERS))


def _shared(function: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    with worker_threads(), executor(workers) as threads:
        yield from threads.map(function, items)


@serves("cpu")
def keep_freed_memory(xp: Any) -> None:
    """Make the C library keep freed memory for the next array, and not return it to the system.

    A training step frees and allocates arrays of the same sizes again and again. By default the
    system gets large arrays back each time, and must clear their pages before the next use. This
    can take a third of a small model's step. With these settings the C library is the pool of
    free arrays. Threads' own heaps would return memory in any case, so all threads share one heap.
    Only glibc (Linux) has these settings; on other systems nothing changes.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            # Names and values of <malloc.h>.
            M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
            mallopt(M_ARENA_MAX, 1)
            mallopt(M_MMAP_THRESHOLD, 1 << 30)
            mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
