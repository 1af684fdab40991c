"""python tests/cuda_on_cpu [OPTIONS OF PYTEST]: the tests for a GPU, on the CPU."""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import cuda_on_cpu  # noqa: E402

try:
    cuda_on_cpu.check()
except cuda_on_cpu.Missing as error:
    sys.exit(print(f"skipped: {error}"))
os.environ["TINYATTN_CUDA_ON_CPU"] = "1"  # conftest.py starts it before CuPy is imported
options = ["--rootdir", str(TESTS.parent), "-m", "gpu"]
sys.exit(pytest.main([*options, *(sys.argv[1:] or [str(TESTS)])]))
