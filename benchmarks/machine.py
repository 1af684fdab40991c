"""What a measurement was taken on."""

import platform
from pathlib import Path

from tinyattn.backend import available_cores


def machine() -> str:
    """Processor, cores that may be used, system and Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")),
                 platform.processor())  # fmt: skip
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{model}, {available_cores()} cores, {system}"
