"""Processes that keep the CPU cores busy, as on a laptop or a shared machine."""

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
while os.getppid() == parent:  # ends it also if the comparison is killed
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """A context with processes that compute until it ends, each on its own CPU core."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    processes = []
    try:
        for i in range(count):
            arguments = [str(cores[i % len(cores)]), str(os.getpid())]
            processes.append(subprocess.Popen([sys.executable, "-c", SPIN, *arguments]))
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()
