"""The machine on which a measurement was taken."""

import platform
from pathlib import Path

from tinyattn.parallel.threads import available_cores, blas


def machine() -> str:
    """Processor, number of available cores, system, Python, and the BLAS library."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")),
                 platform.processor())  # fmt: skip
    system = f"{platform.system()}, Python {platform.python_version()}, {blas()}"
    return f"{model}, {available_cores()} cores, {system}"
