"""What chapter 1 does to the process: its threads and its memory."""

import platform
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tinyattn.cores import SWITCH_SECONDS, worker_threads


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_worker_threads_leave_everything_as_it_was() -> None:
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


FAULTS = """
import resource, sys, threading, numpy as np
from tinyattn.cores import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
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
def test_memory_that_is_kept_comes_back_without_page_faults() -> None:
    plain, kept = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, how])) for how in ("", "keep")
    )
    if plain < 10_000:
        pytest.skip(f"{plain} page faults without the setting: nothing to be seen here")
    assert kept < plain / 2
