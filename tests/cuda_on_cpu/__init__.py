"""The real CuPy, executed on the CPU.

A GPU is rarely at hand, and what would run on it should not go untested until one is. CuPy's own
code is used as it is: it checks arguments, chooses types, and writes CUDA C++ for what is asked of
it. Below that everything is replaced: CUDA's functions (functions.py), the compiler of kernels, for
which g++ stands in (compiler.py, language.h), the threads of a block (threads.cpp), and matrix
products (products.py).

    start()                 # before anyone imports cupy
    import cupy
    cupy.exp(cupy.zeros(3)) # compiles a kernel, and runs it

So the values are right where the kernels are, launches and copies can be counted, and only time and
what threads do at the same time are not a GPU's. Not covered: sorting and random numbers of CuPy's
own, which are compiled for GPUs long before, its faster reductions, streams, and races.

It leans on how CuPy is made inside, hence on one version.
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
"""For tests of this itself, and those that count."""


class Missing(Exception):
    """Something that this needs is not installed; one line says what."""


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
    os.environ["CUPY_ACCELERATORS"] = ""  # plain reductions: the others are compiled already
    os.environ.setdefault("CUPY_CACHE_DIR", str(Path.home() / ".cache" / "tinyattn-cuda-on-cpu"))
    from cupy_backends.cuda.api import driver, runtime

    from cuda_on_cpu import compiler, products

    put_into(runtime)
    put_into(driver)
    products.put_in_place()
    compiler.put_in_place()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
