"""Engine room, parallel: the cores of this computer, and the memory that they share.

NumPy uses one core, except in matrix products, where its BLAS uses all; small products gain little
from that. So here each core has a thread of ours, with a part of the work and its own products.
What that needs from the interpreter, the BLAS and the C library stands here.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tinyattn.backend import device_name
from tinyattn.limits import MOST_WORKERS, whole
from tinyattn.services import serves

SWITCH_SECONDS = 2e-4
"""How long a worker thread may keep the interpreter while another waits for it. With two workers,
steps got faster from 5 ms (Python's default) down to 0.5 ms, and not below."""


def on_gpu(xp: Any) -> bool:
    """Whether this array module is a GPU's: a call starts work there and does not wait for it."""
    return device_name(xp) == "cuda"


def available_cores() -> int:
    """Cores that this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas() -> str:
    """The library of matrix products, its version, and the processors that its kernels are for.

    Products are most of a step, and kernels for wider registers can take half the time.
    """
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    if not pools:
        return "unknown"
    kernels = f" ({pools[0]['architecture']})" if pools[0].get("architecture") else ""
    return f"{pools[0]['internal_api']} {pools[0].get('version')}{kernels}"


class ForAWhile:
    """A setting of the whole process, which its users change for a while.

    Several users may overlap and end in any order. Each user keeps a function that puts back the
    state that it found. A user that ends before others hands its function to the next user, because
    that one found a state that was changed already. So the last user puts back the state that the
    first user found.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change, self._lock = change, threading.Lock()
        self._users: dict[object, Callable[[], None]] = {}  # what each puts back, oldest first

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
                put_back = self._users.pop(me)
                if later:
                    self._users[later[0]] = put_back
                else:
                    put_back()


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
    """A context inside which a matrix product uses one thread: more do not help a small one."""
    return _blas()


@contextmanager
def worker_threads() -> Iterator[None]:
    """A context for threads of our own, side by side on the cores.

    Each has its matrix products to itself: splitting the batch over threads is faster than
    splitting each product, after which all threads wait for one another, and stalls less when a
    core is busy elsewhere. And a thread that comes out of NumPy gets the interpreter soon: by
    default a neighbour whose operations are short may keep it for 5 ms, many operations long.
    """
    with _switching(), one_blas_thread():
        yield


@serves("cpu", "cuda")
def side_by_side(
    xp: Any, function: Callable[[Any], Any], items: Iterable[Any], workers: int | None = None
) -> Iterator[Any]:
    """`function` of each item, in the order of the items, computed by threads that share them."""
    if workers is None:
        workers = 1 if on_gpu(xp) else min(available_cores(), MOST_WORKERS)
    return _shared(function, items, whole("workers", workers, 1, MOST_WORKERS))


def _shared(function: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    with worker_threads(), ThreadPoolExecutor(workers) as executor:
        yield from executor.map(function, items)


@serves("cpu")
def keep_freed_memory(xp: Any) -> None:
    """Ask the C library to keep freed memory for the next array instead of returning it.

    A training step frees and allocates the same sizes again and again. By default large blocks
    go back to the system each time and come back as untouched pages that must be cleared first,
    which can cost a small model a third of its step. Arrays are freed with their last reference,
    so the C library becomes the pool that hands them out again. The heaps that threads get for
    themselves give back what they hold in any case, so all threads share one. Only glibc (Linux)
    offers these settings; other systems are left as they are.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            # Names and numbers of <malloc.h>.
            M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
            mallopt(M_ARENA_MAX, 1)
            mallopt(M_MMAP_THRESHOLD, 1 << 30)
            mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
