"""Chapter 1: where arrays live.

Everything in this book is arithmetic on arrays, and an array is made either by NumPy, in the
computer's memory, or by CuPy, in the memory of an NVIDIA GPU. The two libraries offer the same
functions under the same names, so a function that asks *the array itself* which library made it
runs on both:

    xp = array_module(x)      # numpy or cupy
    y = xp.exp(x)

No global switch says where we compute; the arrays decide. A device is named only where an array
is born (`asarray(..., device="cuda")`) and where it crosses over (`asnumpy`). This is the only
file of the book that imports CuPy. Next: sums of very many numbers (sums.py).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

THREAD_STREAMS = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
"""The environment variable that gives each thread its own queue of work for the GPU."""

Array = Any
"""A NumPy or CuPy array. Their types share no base class, so the annotation is for the reader."""


class Device(NamedTuple):
    """A place where arrays live, and the few things that differ between places."""

    name: str  # what users write: "cpu", "cuda"
    xp: Any  # the array module
    array_type: type  # what the module calls its array
    put: Callable[[np.ndarray], Array]  # host array -> array on this device
    get: Callable[[Array], np.ndarray]  # array on this device -> host array
    erf: Callable[[Array], Array]  # the one special function that NumPy lacks


_by_name: dict[str, Device] = {}
_by_type: dict[type, Device] = {}
_names: dict[Any, str] = {}  # by array module


def register(device: Device) -> None:
    """Make a device known. CUDA registers when first asked for; tests add a stand-in."""
    _by_name[device.name] = device
    _by_type[device.array_type] = device
    _names[device.xp] = device.name


def is_array(value: Any) -> bool:
    """Whether `value` is an array of a known device (a NumPy scalar is a number, not an array)."""
    return type(value) in _by_type


def plain_number(value: Any) -> Any:
    """A NumPy number as a Python number: it would widen float32. Anything else as it is."""
    if not isinstance(value, np.generic):
        return value
    return float(value) if value.dtype.kind == "f" else value.item()


def device_of(*arrays: Array) -> Device:
    """The one device on which all `arrays` live.

    Raises: TypeError if one is not an array, or if they live on different devices.
    """
    first = _by_type.get(type(arrays[0]))
    for position, array in enumerate(arrays):
        device = _by_type.get(type(array))
        if device is None:
            raise TypeError(f"argument {position} is a {type(array).__name__}, not an array")
        if device is not first:
            where = ", ".join(f"argument {i} on {_by_type[type(a)].name}"
                              for i, a in enumerate(arrays) if type(a) in _by_type)  # fmt: skip
            raise TypeError(f"arrays live on different devices: {where}; move one with .to(device)")
    assert first is not None
    return first


def array_module(*arrays: Array) -> Any:
    """NumPy or CuPy, whichever made all of these arrays (see `device_of` for the errors)."""
    return device_of(*arrays).xp


def device_for(xp: Any) -> str:
    """The name of the device whose array module this is."""
    return _names[xp]


def on_gpu(xp: Any) -> bool:
    """Whether this array module is a GPU's: a call starts work there and does not wait for it."""
    return getattr(xp, "__name__", "") == "cupy"


def get_device(name: str) -> Device:
    """The device called `name`: "cpu" or "cuda".

    Raises: ValueError for an unknown name; RuntimeError if CUDA is asked for and cannot be had,
    with what to do.
    """
    if name == "cuda" and name not in _by_name:
        register(_open_cuda())
    if name not in _by_name:
        raise ValueError(f"device must be one of {sorted({*_by_name, 'cuda'})}; got {name!r}")
    return _by_name[name]


def asarray(values: Any, dtype: Any = None, *, device: str = "cpu") -> Array:
    """`values` (numbers, lists, a host array) as an array that lives on `device`."""
    if type(values) in _by_type and device_of(values).name == device:
        return values if dtype is None else values.astype(dtype, copy=False)
    return get_device(device).put(np.asarray(asnumpy(values), dtype=dtype))


def asnumpy(array: Any) -> Any:
    """`array` on the host. From a GPU this copies and waits, as `float` and `bool` do too."""
    device = _by_type.get(type(array))
    return device.get(array) if device else np.asarray(array)


def erf(x: Array) -> Array:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt, elementwise, in x's precision.

    On the CPU this is slow; `ops.erf` and `ops.gelu` have a fast formula for float32.
    """
    return device_of(x).erf(x)


def _erf_on_cpu(x: np.ndarray) -> Any:
    """The C library's erf, one element at a time: slow, and exact."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


register(Device("cpu", np, np.ndarray, put=lambda a: a, get=lambda a: a, erf=_erf_on_cpu))


def _open_cuda() -> Device:
    """Import CuPy and look for a GPU. The import alone proves nothing: it works without a GPU."""
    try:
        import cupy
        from cupyx.scipy import special
    except ImportError as error:
        raise RuntimeError(
            "device 'cuda' needs CuPy; install it with: pip install 'tinyattn[cuda12]' "
            "(or [cuda13], to match your driver)"
        ) from error
    if not cupy.cuda.is_available():
        raise RuntimeError("device 'cuda': CuPy is installed, but found no NVIDIA GPU to use")
    if os.environ.get(THREAD_STREAMS, "0") not in ("", "0"):
        raise RuntimeError(
            f"device 'cuda': {THREAD_STREAMS} lets threads not wait for each other's work on the "
            "GPU, and a training step relies on it; unset it"
        )
    return Device("cuda", cupy, cupy.ndarray, cupy.asarray, cupy.asnumpy, special.erf)


def describe_gpu() -> list[str]:
    """The GPU, its memory and what of that CuPy's pool holds, as lines for people.

    Raises: RuntimeError if there is none, see `get_device`.
    """
    cupy = get_device("cuda").xp
    facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    free, total = cupy.cuda.Device().mem_info
    pool = cupy.get_default_memory_pool()
    gigabyte = 1 << 30
    return [
        f"{facts['name'].decode()}, compute capability {facts['major']}.{facts['minor']}, "
        f"CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}",
        f"memory: {free / gigabyte:.1f} of {total / gigabyte:.1f} GB free; pool: "
        f"{pool.used_bytes() / gigabyte:.1f} GB in use, {pool.total_bytes() / gigabyte:.1f} held",
    ]
