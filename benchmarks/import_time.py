"""How long `import tinyattn` takes beyond NumPy's own import: python benchmarks/import_time.py"""

import statistics
import subprocess
import sys

PROGRAM = (
    "import numpy, time; t = time.perf_counter(); import tinyattn; print(time.perf_counter() - t)"
)
times = [float(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                              check=True).stdout) for _ in range(11)]  # fmt: skip
print(f"import tinyattn: {1000 * statistics.median(times):.0f} ms beyond numpy "
      f"(median of {len(times)}, {1000 * min(times):.0f} to {1000 * max(times):.0f})")  # fmt: skip
