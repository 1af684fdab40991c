"""Cores that are busy with something else, as those of a laptop or a shared machine often are."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = """
import os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that compute without end, each on a core of its own, while the context lasts."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    processes = [subprocess.Popen([sys.executable, "-c", SPIN, str(cores[i % len(cores)])])
                 for i in range(count)]  # fmt: skip
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()
