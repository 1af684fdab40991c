"""How a contender answers: it says `ready`, then takes one step for each line that it reads.

So contenders stay alive side by side and take steps in turn, under the same conditions. Each
answer is a line of JSON: seconds, CPU seconds, what the step computed, and the memory that the
steps have needed so far beyond what the process held before the first.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def serve(step: Callable[[], Any], version: str) -> None:
    """Answer each line on stdin with one step. step() returns what JSON can hold."""
    print(f"\nready {version}", flush=True)  # on a line of its own, whatever was printed before
    # Whatever a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    before = None
    for _ in sys.stdin:
        if before is None:
            before = memory_mb()
        cpu, start = time.process_time(), time.perf_counter()
        result = step()
        answer = {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - cpu,
            "result": result,
            "step_mb": peak_mb() - before,
        }
        print(json.dumps(answer), file=answers, flush=True)


def memory_mb() -> float:
    """The memory that the process holds; what it held before no longer counts as its peak."""
    if not RESET.exists():
        return peak_mb()
    RESET.write_text("5")
    return _status("VmRSS")


def peak_mb() -> float:
    """The most memory that the process has held."""
    if STATUS.exists():
        return _status("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _status(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
