"""g++ instead of NVRTC: it compiles CUDA C++ to a library for the CPU.

Sources that CuPy generates, and sources written by hand, are compiled unchanged after `language.h`.
CuPy stores compiled libraries on disk, so each is compiled once.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from cuda_on_cpu.functions import DEVICE, function

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O1", "-w", "-fpermissive", "-shared", "-fPIC", "-fno-gnu-unique",
         "-U_FORTIFY_SOURCE", "-D__CUDACC_VER_MAJOR__=13", f"-I{HERE}"]  # fmt: skip
KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
WAITS = re.compile(r"__syncthreads|__syncwarp|__shfl")
SHARED = re.compile(r"extern\s+__shared__\s+([\w ]+?)\s*(\w+)\s*\[\s*\]\s*;")


class NotCompiled(Exception):
    """g++ failed; the message is its output."""


def compiled(source: str, *options: str) -> bytes:
    """A C++ source as a library. Raises: NotCompiled."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        (Path(folder) / "kernel.cpp").write_text(source)
        run = subprocess.run(
            ["g++", *FLAGS, *options, f"{folder}/kernel.cpp", "-o", str(made)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            raise NotCompiled(run.stderr)
        return made.read_bytes()


def loaded(library: bytes, mode: int = ctypes.DEFAULT_MODE) -> ctypes.PyDLL:
    """A compiled library. Calls hold the GIL, because they share the threads of a block."""
    file, path = tempfile.mkstemp(suffix=".so")
    os.write(file, library)
    os.close(file)
    try:
        return ctypes.PyDLL(path, mode)
    finally:
        os.unlink(path)


class Program:
    """A program of CuPy's compiler module, compiled by g++."""

    def __init__(
        self, source: str, name: str = "", headers: Any = (), include_names: Any = (),
        name_expressions: Any = None, method: str = "ptx",
    ) -> None:  # fmt: skip
        self.source, self.expressions = source, list(name_expressions or ())

    def compile(self, options: Any = (), log: Any = None) -> tuple[bytes, dict[str, str] | None]:
        """The library, and the names of kernels from templates in it."""
        if not self.source:  # CuPy's question for the version of the compiler
            return b"// g++ " + _fingerprint(), None
        kernels = {name: name for name in KERNEL.findall(self.source)}
        made = {expression: f"template_{i}" for i, expression in enumerate(self.expressions)}
        kernels |= {name: expression for expression, name in made.items()}
        waits = "true" if WAITS.search(self.source) else "false"
        calls = "".join(
            f'extern "C" bool launch_{name}(void** args, const unsigned* sizes) {{\n'
            f"  return run([](void** at) {{ call_with(&{kernel}, at); }}, args, sizes, {waits});\n"
            "}\n"
            for name, kernel in kernels.items()
        )
        body = SHARED.sub(r"\1* \2 = reinterpret_cast<\1*>(shared_memory);", self.source)
        start = '#include "language.h"\nextern "C" bool run(void (*)(void**), void**, ' \
                'const unsigned*, bool);\n#line 1 "kernel.cu"\n'  # fmt: skip
        from cupy.cuda.compiler import CompileException

        try:
            library = compiled(start + body + "\n" + calls,
                               *[o for o in options if o.startswith(("-I", "-D"))])  # fmt: skip
        except NotCompiled as error:
            raise CompileException(str(error), self.source, "kernel.cu", options) from error
        return library, made or None


def _fingerprint() -> bytes:
    """A hash of the files here on which a compiled kernel depends."""
    ours = b"".join((HERE / name).read_bytes() for name in ("language.h", "compiler.py"))
    return hashlib.sha256(ours).hexdigest().encode()


_libraries: dict[int, ctypes.PyDLL] = {}


@function
def moduleLoadData(library: bytes) -> int:
    handle = next(DEVICE.handles)
    _libraries[handle] = loaded(library)
    return handle


@function
def moduleUnload(module: int) -> None:
    _libraries.pop(module, None)


@function
def moduleGetFunction(module: int, name: str | bytes) -> int:
    handle = next(DEVICE.handles)
    name = name.decode() if isinstance(name, bytes) else name
    call = getattr(_libraries[module], f"launch_{name}")
    call.restype, call.argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_void_p]
    DEVICE.kernels[handle] = name, call
    return handle


def put_in_place() -> None:
    """Let CuPy compile with g++, once its own functions are replaced."""
    loaded(compiled((HERE / "threads.cpp").read_text()), ctypes.RTLD_GLOBAL)
    from cupy.cuda import compiler

    compiler._NVRTCProgram = Program
    compiler._get_nvrtc_version = lambda: (13, 0)
