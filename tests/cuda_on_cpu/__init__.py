"""The real CuPy, executed on the CPU.

It tests the code for GPUs on computers without a GPU. CuPy's own code is unchanged: it checks
arguments, chooses dtypes, and writes CUDA C++ for each call. Everything below it is replaced: the
functions of CUDA (functions.py), the compiler of kernels, by g++ (compiler.py, language.h), the
threads of a thread block (threads.cpp), and matrix products (cublas.py).

    start()                 # before cupy is imported
    import cupy
    cupy.exp(cupy.zeros(3)) # compiles a kernel, and runs it

So right kernels give right values, and launches and copies can be counted. Only the time and the
simultaneous work of threads differ from a GPU. Not covered: CuPy's own sorting and random numbers,
which are compiled for GPUs in advance, its faster reductions, streams, and races.

It depends on CuPy's internals, and so on one version.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

import pytest

from cuda_on_cpu.functions import DEVICE, put_into

CUPY = "14.2"
__all__ = ["DEVICE", "Missing", "check", "needs_it", "start"]

needs_it = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        "not os.environ.get('TINYATTN_CUDA_ON_CPU')", reason="python tests/cuda_on_cpu runs it"
    ),
]
"""For tests of this package, and tests that count."""


class Missing(Exception):
    """Something that this needs is not installed; the message is one line."""


def check() -> None:
    """Raises: Missing without g++ or the right CuPy."""
    if shutil.which("g++") is None:
        raise Missing("CuPy on the CPU needs g++, which is not installed")
    versions = [_version(f"cupy-cuda{n}x") for n in (12, 13)]
    if not any(version.startswith(f"{CUPY}.") for version in versions):
        found = " and ".join(filter(None, versions)) or "none"
        raise Missing(f"CuPy on the CPU needs cupy-cuda13x=={CUPY}.*; found {found}")


def start() -> None:
    """Make `import cupy` find a device. Raises: Missing, see `check`."""
    check()
    os.environ["CUPY_ACCELERATORS"] = ""  # plain reductions
    os.environ.setdefault("CUPY_CACHE_DIR", str(Path.home() / ".cache" / "tinyattn-cuda-on-cpu"))
    from cupy_backends.cuda.api import driver, runtime

    from cuda_on_cpu import compiler, cublas

    put_into(runtime)
    put_into(driver)
    cublas.put_in_place()
    compiler.put_in_place()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
