"""The protocol of a contender: it prints `ready`, then takes one step for each line on stdin.

So several contenders run at the same time and take steps in turn, under the same conditions. The
answer to a line is a line of JSON: seconds, CPU seconds, the result of the step, and the most
memory of all steps so far, beyond the memory of the process before the first step.
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
    """Take one step for each line on stdin. The result of step() must fit into JSON."""
    print(f"\nready {version}", flush=True)  # on its own line, also after other output
    # The output of a library must not be taken for an answer, so it goes to stderr.
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
    """The memory of the process now, in MB; also resets its peak, where the system can."""
    if not RESET.exists():
        return peak_mb()
    RESET.write_text("5")
    return _status("VmRSS")


def peak_mb() -> float:
    """The peak of the memory of the process, in MB."""
    if STATUS.exists():
        return _status("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _status(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
