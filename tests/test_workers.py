"""The engine room and the process: threads, memory, and services that replace those of the book."""

import inspect
import platform
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tinyattn import Tensor, no_grad
from tinyattn.graph import recording
from tinyattn.kernels.cuda import precision
from tinyattn.measure import traced_memory
from tinyattn.parallel.threads import SWITCH_SECONDS, one_blas_thread, worker_threads
from tinyattn.services import BOOK, SERVICES


@pytest.mark.parametrize("name", sorted({name for name, _ in SERVICES}))
def test_a_service_replaces_one_of_the_book(name: str) -> None:
    """And has the same parameters."""
    mine = [run for (other, _), run in SERVICES.items() if other == name]
    for run in mine:
        assert [*inspect.signature(run).parameters.values()] == [
            *inspect.signature(BOOK[name]).parameters.values()
        ]


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_worker_threads_restore_all_settings() -> None:
    with threadpool_limits(2, user_api="blas"):
        interval, threads = sys.getswitchinterval(), blas_threads()
        for fails in (False, True):
            try:
                with worker_threads():
                    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
                    assert {*blas_threads()} == {1}
                    if fails:
                        raise KeyError
            except KeyError:
                assert fails
            assert sys.getswitchinterval() == interval and blas_threads() == threads


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("context", [worker_threads, one_blas_thread])
def test_users_that_overlap_restore_all_settings(context: Any, order: tuple[int]) -> None:
    """Whichever ends first; until the last one ends, the settings are those that they need."""
    with threadpool_limits(2, user_api="blas"):
        interval, threads = sys.getswitchinterval(), blas_threads()
        sys.setswitchinterval(0.00033)  # which Python rounds to 329 or 330 microseconds
        odd = sys.getswitchinterval()
        users = [context() for _ in range(3)]
        for user in users:
            user.__enter__()
        inside = sys.getswitchinterval()
        for number in order:
            assert {*blas_threads()} == {1}
            assert sys.getswitchinterval() == pytest.approx(inside, abs=1e-7)
            users[number].__exit__(None, None, None)
        after = sys.getswitchinterval()
        sys.setswitchinterval(interval)
        assert after == odd and blas_threads() == threads


def test_contexts_of_the_graph_and_of_matmul_precision_may_overlap_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "why_no_precision", lambda xp, how: "")
    pairs: list[tuple[Any, Any]] = [
        (no_grad(), no_grad()),
        (precision.matmul_precision(np, "tf32"), precision.matmul_precision(np, "bfloat16")),
    ]
    for first, second in pairs:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        if first is pairs[0][0]:
            assert not recording() and not (Tensor([1.0], requires_grad=True) * 2).requires_grad
        else:
            assert precision._how[-1][1] == "bfloat16"
        second.__exit__(None, None, None)
    assert recording() and [how for _, how in precision._how] == ["float32"]


def test_memory_that_other_code_traces_is_still_traced() -> None:
    with traced_memory() as grown:
        kept = np.ones(10_000)
        np.ones(30_000)
        now, peak = grown()
    assert 0 <= now - kept.nbytes < 5_000 and 0 <= peak - 4 * kept.nbytes < 5_000
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        before = np.ones(20_000)
        with traced_memory() as grown:
            kept = np.ones(10_000)
            assert 0 <= grown()[0] - kept.nbytes < 5_000
        assert tracemalloc.is_tracing() and before.size
    finally:
        tracemalloc.stop()


FAULTS = """
import resource, sys, threading, numpy as np
from tinyattn.parallel.threads import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory(np)
def work():
    for _ in range(10):  # more at a time than one of the heaps that threads get would hold
        [np.ones(4 << 20) for _ in range(4)]
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc offers the setting")
def test_kept_memory_is_used_again_without_page_faults() -> None:
    plain, kept = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, how])) for how in ("", "keep")
    )
    if plain < 10_000:
        pytest.skip(f"{plain} page faults without the setting: nothing to be seen here")
    assert kept < plain / 2
