"""The functions of CUDA's runtime and driver, on the CPU.

Device memory is host memory, and a launch is a function call. CuPy's compiled modules look these
functions up in a table of `cupy_backends`, with a C signature and an address for each name. Before
CuPy itself is imported, the addresses are replaced by those of functions of this file.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

TO_HOST, TO_DEVICE = 2, 1  # cudaMemcpyKind
WARP, MOST_THREADS = 32, 1024

ATTRIBUTES = {  # cudaDeviceAttr: the values of a device of compute capability 9.0
    1: MOST_THREADS, 2: 1024, 3: 1024, 4: 64,  # threads of a block: in all, and along each axis
    5: 2**31 - 1, 6: 65535, 7: 65535,  # blocks of a grid along each axis
    8: 48 << 10,  # shared memory of a thread block, in bytes
    10: WARP, 16: 132,  # multiprocessors
    75: 9, 76: 0,
}  # fmt: skip


@dataclass
class Record:
    """The launches and copies of the device."""

    launches: list[str] = field(default_factory=list)  # names of kernels, and of products
    to_device: list[int] = field(default_factory=list)  # bytes of each copy
    to_host: list[int] = field(default_factory=list)


class Device:
    """The simulated device: its memory, its kernels, and a record of its work."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.dry = False
        self.kernels: dict[int, tuple[str, Callable[..., bool]]] = {}
        self.handles = itertools.count(1 << 12, 16)

    @contextmanager
    def recorded(self, *, dry: bool = False) -> Iterator[Record]:
        """Record launches and copies. With `dry` kernels are compiled and not run."""
        record, before = Record(), self.dry
        self.records.append(record)
        self.dry = dry or before
        try:
            yield record
        finally:
            self.records.remove(record)
            self.dry = before

    def note(self, launch: str) -> bool:
        """Record a launch. Returns: whether it is to be run."""
        for record in self.records:
            record.launches.append(launch)
        return not self.dry


DEVICE = Device()
FUNCTIONS: dict[str, Callable[..., Any]] = {}

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def function(body: Callable[..., Any]) -> Callable[..., Any]:
    """A function that CuPy may call, under the name that it has in CUDA."""
    FUNCTIONS[body.__name__] = body
    return body


# One device, and nothing to wait for.


@function
def getDeviceCount() -> int:
    return 1


@function
def getDevice() -> int:
    return 0


@function
def setDevice(device: int) -> None:
    pass


@function
def deviceGetAttribute(attribute: int, device: int) -> int:
    return ATTRIBUTES.get(attribute, 0)


@function
def getDeviceProperties(device: int) -> dict[str, Any]:
    return {"name": b"a CPU that stands in", "major": 9, "minor": 0, "warpSize": WARP,
            "multiProcessorCount": ATTRIBUTES[16], "totalGlobalMem": 80 << 30}  # fmt: skip


@function
def driverGetVersion() -> int:
    return 13020


@function
def get_build_version() -> int:
    return 13020


@function
def ctxGetCurrent() -> int:
    return 1


@function
def _ensure_context() -> None:
    pass


@function
def deviceSynchronize() -> None:
    pass


@function
def streamSynchronize(stream: int) -> None:
    pass


@function
def streamIsCapturing(stream: int) -> int:
    return 0


@function
def eventCreateWithFlags(flags: int) -> int:
    return next(DEVICE.handles)


@function
def eventCreate() -> int:
    return next(DEVICE.handles)


@function
def eventRecord(event: int, stream: int) -> None:
    pass


@function
def eventSynchronize(event: int) -> None:
    pass


@function
def eventDestroy(event: int) -> None:
    pass


@function
def eventElapsedTime(start: int, end: int) -> float:
    return 0.0


# Memory. New memory contains NaNs, so reading before writing gives NaN.


@function
def malloc(size: int) -> int:
    address = _libc.malloc(size + 1)
    if not DEVICE.dry:
        ctypes.memset(address, 0xFF, size)
    return int(address)


@function
def free(address: int) -> None:
    _libc.free(address)


@function
def mallocAsync(size: int, stream: int) -> int:
    return malloc(size)


@function
def freeAsync(address: int, stream: int) -> None:
    free(address)


@function
def hostAlloc(size: int, flags: int) -> int:
    return malloc(size)


@function
def freeHost(address: int) -> None:
    free(address)


@function
def memGetInfo() -> tuple[int, int]:
    return 80 << 30, 80 << 30


@function
def memcpy(to: int, source: int, size: int, way: int) -> None:
    for record in DEVICE.records:
        if way == TO_HOST:
            record.to_host.append(size)
        elif way == TO_DEVICE:
            record.to_device.append(size)
    ctypes.memmove(to, source, size)


@function
def memcpyAsync(to: int, source: int, size: int, way: int, stream: int) -> None:
    memcpy(to, source, size, way)


@function
def memset(address: int, value: int, size: int) -> None:
    memsetAsync(address, value, size, 0)


@function
def memsetAsync(address: int, value: int, size: int, stream: int) -> None:
    if DEVICE.note("memset"):
        ctypes.memset(address, value, size)


@function
def pointerGetMemoryType(address: int) -> int:
    return 0  # not known to CUDA: a copy from it must be complete before the caller continues


# Kernels, which compiler.py loads.


@function
def funcGetAttribute(attribute: int, kernel: int) -> int:
    return MOST_THREADS


@function
def funcSetAttribute(kernel: int, attribute: int, value: int) -> None:
    pass


@function
def occupancyMaxPotentialBlockSize(kernel: int, shared: int, limit: int) -> tuple[int, int]:
    return ATTRIBUTES[16], 256


@function
def occupancyMaxActiveBlocksPerMultiprocessor(kernel: int, threads: int, shared: int) -> int:
    return 8


@function
def launchKernel(
    kernel: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
    parameters: int, extra: int,
) -> None:  # fmt: skip
    name, run = DEVICE.kernels[kernel]
    if DEVICE.note(name) and not run(parameters, (ctypes.c_uint * 6)(gx, gy, gz, bx, by, bz)):
        raise RuntimeError(f"{name}: threads of a block wait for each other in different places")


TYPES: dict[str, Any] = {
    "int": ctypes.c_int, "unsigned int": ctypes.c_uint, "size_t": ctypes.c_size_t,
    "intptr_t": ctypes.c_ssize_t, "float": ctypes.c_float, "PyObject *": ctypes.py_object,
}  # fmt: skip

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_keep_for_ever = ctypes.pythonapi.Py_IncRef
_keep_for_ever.argtypes = [ctypes.py_object]


_ended: list[bool] = []
"""Keeps objects alive at the end of Python, because CuPy then still frees its memory."""
atexit.register(_ended.append, True)


def put_into(module: ModuleType) -> None:
    """Replace the functions of a module that this file has, for callers in C and in Python."""
    table = module.__pyx_capi__
    for name in FUNCTIONS.keys() & table.keys():
        signature = _name_of(table[name])
        result, arguments = re.fullmatch(r"(.+?) ?\((.*)\)", signature.decode()).groups()
        types = [name.strip() for name in arguments.split(",")]
        taken = [TYPES[t] for t in types if not t.startswith(("int __pyx_skip", "void"))]
        ignored = [ctypes.c_int] * any(t.startswith("int __pyx_skip") for t in types)
        body = FUNCTIONS[name]

        nothing = None if TYPES[result] is ctypes.py_object else 0

        def call(
            *args: Any, body: Any = body, count: int = len(taken), nothing: Any = nothing,
            ended: list[bool] = _ended,
        ) -> Any:  # fmt: skip
            return nothing if ended else body(*args[:count])

        pointer = ctypes.PYFUNCTYPE(TYPES[result], *taken, *ignored)(call)
        for needed in (pointer, signature):  # CuPy calls it until the end of the process
            _keep_for_ever(needed)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        table[name] = _capsule(address, signature, None)
        setattr(module, name, body)
