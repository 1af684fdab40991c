"""Chapter 1: where arrays live.

Everything in this book is arithmetic on arrays, and an array is made either by NumPy, in the
computer's memory, or by CuPy, in the memory of an NVIDIA GPU. The two libraries offer the same
functions under the same names, so a function that asks *the array itself* which library made it
runs on both:

    xp = array_module(x)      # numpy or cupy
    y = xp.exp(x)

No global switch says where we compute; the arrays decide. A device is named only where an array is
born (`asarray(..., device="cuda")`) and where it crosses over (`asnumpy`). Next: how a gradient
finds its way back (graph.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

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


OPENERS: dict[str, Callable[[], Device]] = {}
"""Devices that are opened when somebody first asks for them: "cuda" (gpu.py)."""
_by_name: dict[str, Device] = {}
_by_type: dict[type, Device] = {}
_by_module: dict[Any, Device] = {}


def register(device: Device) -> None:
    """Make a device known. Tests add a stand-in."""
    _by_name[device.name] = _by_type[device.array_type] = _by_module[device.xp] = device


def is_array(value: Any) -> bool:
    """Whether `value` is an array of a known device (a NumPy scalar is a number, not an array)."""
    return type(value) in _by_type


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


def device_name(xp: Any) -> str:
    """The name of the device whose array module this is."""
    return _by_module[xp].name


def get_device(name: str) -> Device:
    """The device called `name`: "cpu" or "cuda".

    Raises: ValueError for an unknown name; RuntimeError if CUDA is asked for and cannot be had,
    with what to do.
    """
    if name in OPENERS and name not in _by_name:
        register(OPENERS[name]())
    if name not in _by_name:
        raise ValueError(f"device must be one of {sorted({*_by_name, *OPENERS})}; got {name!r}")
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


def _erf_on_cpu(x: np.ndarray) -> Any:
    """The C library's erf, one element at a time: slow, and exact."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


register(Device("cpu", np, np.ndarray, put=lambda a: a, get=lambda a: a, erf=_erf_on_cpu))
