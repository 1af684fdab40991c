"""Cores that are busy with something else, as those of a laptop or a shared machine often are."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = """
import os, sys
core, parent = map(int, sys.argv[1:])
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {core})
while os.getppid() == parent:  # nobody else would end it if the comparison is killed
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that compute without end, each on a core of its own, while the context lasts."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    processes = []
    try:
        for i in range(count):
            said = [str(cores[i % len(cores)]), str(os.getpid())]
            processes.append(subprocess.Popen([sys.executable, "-c", SPIN, *said]))
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()
