"""Chapter 1: arrays and devices, NumPy on the CPU and CuPy on the GPU.

Everything in this book is arithmetic on arrays. NumPy creates them in the memory of the computer
(the *host*), CuPy in the memory of an NVIDIA GPU. The two libraries offer the same functions under
the same names. A function asks *the array itself* which library created it. Then it runs on both:

    xp = array_module(x)      # numpy or cupy
    y = xp.exp(x)

There is no global setting for the device: a function computes where its arrays are. We name a
device only to create an array there or to copy one to it: `asarray(..., device="cuda")`. `asnumpy`
copies an array back to the host. Next: the computation graph (graph.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""A NumPy or CuPy array. The two classes have no common base, so type checkers see `Any`.

In this package, a string below a variable explains the variable. Comments such as `# fmt: skip`,
`# noqa` and `# type: ignore` are for the formatter, the linter and the type checker."""


class Device(NamedTuple):
    """A device for arrays, with the few functions that differ between devices."""

    name: str  # as users write it: "cpu", "cuda"
    xp: Any  # the array module: NumPy or CuPy
    array_type: type  # the array class of that module
    put: Callable[[np.ndarray], Array]  # host array -> array on this device
    get: Callable[[Array], np.ndarray]  # array on this device -> host array
    erf: Callable[[Array], Array]  # error function, for GELU, an activation function (chapter 3)


OPENERS: dict[str, Callable[[], Device]] = {}
"""Functions that create a device at its first use. That of "cuda" (gpu.py) imports CuPy."""
_by_name: dict[str, Device] = {}
_by_type: dict[type, Device] = {}
_by_module: dict[Any, Device] = {}


def register(device: Device) -> None:
    """Add a device to the tables. Tests add an imitation of a GPU."""
    _by_name[device.name] = _by_type[device.array_type] = _by_module[device.xp] = device


def is_array(value: Any) -> bool:
    """Whether `value` is an array of a registered device. A NumPy scalar is not an array."""
    return type(value) in _by_type


def device_of(*arrays: Array) -> Device:
    """The device of `arrays`, which must be the same for all of them.

    Raises: TypeError if an argument is not an array, or if the arrays are on different devices.
    """
    first = _by_type.get(type(arrays[0]))
    for position, array in enumerate(arrays):
        device = _by_type.get(type(array))
        if device is None:
            raise TypeError(f"argument {position} is a {type(array).__name__}, not an array")
        if device is not first:
            where = ", ".join(f"argument {i} on {_by_type[type(a)].name}"
                              for i, a in enumerate(arrays) if type(a) in _by_type)  # fmt: skip
            raise TypeError(f"arrays are on different devices: {where}; move one with .to(device)")
    assert first is not None
    return first


def array_module(*arrays: Array) -> Any:
    """The module that created all of these arrays, NumPy or CuPy. Raises: as `device_of`."""
    return device_of(*arrays).xp


def device_name(xp: Any) -> str:
    """The name of the device that has the array module `xp`."""
    return _by_module[xp].name


def get_device(name: str) -> Device:
    """The device called `name`: "cpu" or "cuda".

    Raises: ValueError for an unknown name; RuntimeError, with advice, if CUDA is missing.
    """
    if name in OPENERS and name not in _by_name:
        register(OPENERS[name]())
    if name not in _by_name:
        raise ValueError(f"device must be one of {sorted({*_by_name, *OPENERS})}; got {name!r}")
    return _by_name[name]


def asarray(values: Any, dtype: Any = None, *, device: str = "cpu") -> Array:
    """`values` (a number, a list or an array) as an array on `device`, copied only if needed."""
    if type(values) in _by_type and device_of(values).name == device:
        return values if dtype is None else values.astype(dtype, copy=False)
    return get_device(device).put(np.asarray(asnumpy(values), dtype=dtype))


def asnumpy(array: Any) -> Any:
    """`array` on the host. A GPU computes in the background: waits for its result and copies it."""
    device = _by_type.get(type(array))
    return device.get(array) if device else np.asarray(array)


def _erf_on_cpu(x: np.ndarray) -> Any:
    """NumPy has no erf; this calls the C library's for each element: slow but accurate."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


register(Device("cpu", np, np.ndarray, put=lambda a: a, get=lambda a: a, erf=_erf_on_cpu))
