"""How long `import tinyattn` takes beyond NumPy's own import: python benchmarks/import_time.py"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAM = (
    "import numpy, sys, time; t = time.perf_counter(); __import__(sys.argv[1]); "
    "print(time.perf_counter() - t)"
)


def import_seconds(module: str, python: str | Path = sys.executable) -> float:
    """Of a module, in a new process that has imported NumPy."""
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run([python, "-c", PROGRAM, module], capture_output=True, text=True,
                          check=True, env={**os.environ, "PYTHONPATH": root})  # fmt: skip
    return float(done.stdout)


def main() -> None:
    times = [import_seconds("tinyattn") for _ in range(11)]
    low, middle, high = (1000 * f(times) for f in (min, statistics.median, max))
    print(f"import tinyattn: {middle:.0f} ms beyond numpy "
          f"(median of {len(times)}, {low:.0f} to {high:.0f})")  # fmt: skip


if __name__ == "__main__":
    main()
