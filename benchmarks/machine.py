"""What a measurement was taken on."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """Processor, cores, system and Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")),
                 platform.processor())  # fmt: skip
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )
