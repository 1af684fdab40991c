"""The namespace `xp`: those of NumPy's functions that CuPy has, on device arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from strict.device import (
    SCALARS,
    Array,
    counts,
    explain,
    get,
    launch,
    launch_ufunc,
    put,
    refuse_accidental_float64,
    unwrap,
)
from strict.surface import SURFACE, Signature

# Functions of types and shapes, which the host knows without the device.
HOST_ANSWERS = frozenset(
    """
    broadcast_shapes can_cast common_type iscomplexobj isdtype isfortran isrealobj isscalar
    issubdtype may_share_memory min_scalar_type ndim promote_types result_type shape
    shares_memory size
    """.split()
)

# CuPy has these too.  They call back into Python, write text or files, or write to memory in
# an order that is not defined.
NOT_OFFERED = frozenset(
    """
    apply_along_axis apply_over_axes array2string array_repr array_str asarray_chkfinite
    base_repr binary_repr format_float_positional format_float_scientific frombuffer fromfile
    fromfunction fromiter fromstring from_dlpack genfromtxt get_printoptions iterable load
    loadtxt mask_indices mintypecode piecewise place printoptions put putmask require save savetxt
    savez savez_compressed set_printoptions show_config typename
    """.split()
)

ADVICE = {"random": "draw on the host, where the generator can be saved and repeated"}

# ufunc.reduce and ufunc.accumulate of any other function raise NotImplementedError.
REDUCES = frozenset({"add", "multiply"})

# ufunc.at of any other function raises NotImplementedError, and of any other type TypeError.
SCATTERS = {
    "add": "int32 int64 uint32 uint64 float16 float32 float64",
    "subtract": "int32 uint32",
    "maximum": "int32 int64 uint32 uint64 float32 float64",
    "minimum": "int32 int64 uint32 uint64 float32 float64",
    "bitwise_and": "int32 int64 uint32 uint64",
    "bitwise_or": "int32 int64 uint32 uint64",
    "bitwise_xor": "int32 int64 uint32 uint64",
}


class Ufunc:
    """An elementwise function of the device, with the methods at, reduce and accumulate."""

    def __init__(self, ufunc: np.ufunc, signature: Signature) -> None:
        self.ufunc = ufunc
        self.signature = signature
        self.nin = ufunc.nin
        self.nout = ufunc.nout
        self.__name__ = ufunc.__name__
        self.__doc__ = ufunc.__doc__

    def __call__(self, *operands: Any, out: Any = None, **options: Any) -> Any:
        self.signature.check(self.__name__, (), options)
        if out is None and len(operands) > self.nin:
            out = operands[self.nin] if self.nout == 1 else operands[self.nin :]
            operands = operands[: self.nin]
        return launch_ufunc(self.ufunc, operands, out, **options)

    def at(self, array: Array, indices: Any, values: Any) -> None:
        """Apply the function in place, once for every index, also repeated ones."""
        name = self.__name__
        if name not in SCATTERS:
            raise NotImplementedError(f"cupy.{name}.at is not supported")
        if array.dtype.name not in SCATTERS[name].split():
            raise TypeError(f"cupy.{name}.at does not support {array.dtype}")
        key, _ = array._lower_key(indices)
        host_values = unwrap(values, f"{name}.at")
        counts.launches += 1
        try:
            with np.errstate(all="ignore"):
                self.ufunc.at(array._host, key, host_values)
        except IndexError as error:
            explain(error)

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Combine all elements along an axis, by default the first."""
        return self._along_axis("reduce", "(array, axis, dtype, out, keepdims)", args, kwargs)

    def accumulate(self, *args: Any, **kwargs: Any) -> Any:
        """Combine the elements along an axis and keep all the intermediate results."""
        return self._along_axis("accumulate", "(array, axis, dtype, out)", args, kwargs)

    def _along_axis(self, method: str, text: str, args: Any, kwargs: Any) -> Any:
        name = f"{self.__name__}.{method}"
        if self.__name__ not in REDUCES:
            raise NotImplementedError(f"cupy.{name} is not supported")
        return launch(name, Signature.parse(text), getattr(self.ufunc, method), args, kwargs)

    def outer(self, a: Any, b: Any, **options: Any) -> Any:
        """Apply the function to every pair of an element of a and an element of b."""
        a, b = asarray(a), asarray(b)
        return self(a[(..., *[None] * b.ndim)], b, **options)


def function(name: str, host: Callable[..., Any], text: str) -> Callable[..., Any]:
    """NumPy's function of that name, with the parameters of CuPy's."""
    signature = Signature.parse("(x, out, dtype, casting)" if text == "ufunc" else text)

    def compute(*args: Any, **kwargs: Any) -> Any:
        return launch(name, signature, host, args, kwargs)

    def answer(*args: Any, **kwargs: Any) -> Any:
        signature.check(name, args, kwargs)
        return host(*(getattr(arg, "_host", arg) for arg in args), **kwargs)

    call = answer if name in HOST_ANSWERS else compute
    call.__name__ = name
    call.__doc__ = host.__doc__
    return call


# The namespace -----------------------------------------------------------------------------


class Namespace:
    """A module of CuPy: the names that it shares with the corresponding NumPy module."""

    def __init__(self, name: str, section: str, host: Any) -> None:
        self.__name__ = name
        self.__doc__ = f"{host.__name__} on the strict device."
        self._surface = SURFACE[section]
        for member, text in self._surface.items():
            if hasattr(host, member) and member not in NOT_OFFERED:
                self._offer(member, getattr(host, member), text)

    def _offer(self, name: str, member: Any, text: str) -> None:
        if isinstance(member, np.ufunc):
            signature = Signature.parse("(*, dtype, casting)" if text == "ufunc" else text)
            setattr(self, name, Ufunc(member, signature))
        elif text.startswith("(") or text == "ufunc":
            setattr(self, name, function(name, member, text))
        elif is_number_type(member) or isinstance(member, (float, type(None))):
            setattr(self, name, member)

    def __getattr__(self, name: str) -> Any:
        if name in self._surface or name in ADVICE:
            advice = ADVICE.get(name, "write it with functions that both NumPy and CuPy have")
            raise AttributeError(f"the strict stand-in does not have cupy's {name!r}: {advice}")
        raise AttributeError(f"cupy has no {name!r}")


def is_number_type(member: Any) -> bool:
    """Whether a class describes number types (float32, dtype, finfo), not arrays of them."""
    return isinstance(member, type) and issubclass(
        member, (np.generic, np.dtype, np.finfo, np.iinfo)
    )


xp: Any = Namespace("strict.xp", "functions", np)
xp.linalg = Namespace("strict.xp.linalg", "linalg", np.linalg)
xp.ndarray = Array


# Functions that are not simply NumPy's -----------------------------------------------------


def array(
    obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", *, ndmin: int = 0
) -> Array:
    """A new device array: a copy of host data, or of device arrays, which are stacked."""
    if isinstance(obj, (list, tuple)) and any(isinstance(item, Array) for item in obj):
        obj = xp.stack(obj)
    elif isinstance(obj, SCALARS):
        obj = xp.full((), obj, dtype)  # one number is an argument of the launch
    elif not isinstance(obj, Array):
        obj = put(obj, dtype)
    elif copy:
        obj = obj.astype(obj.dtype, order=order)
    result: Array = obj.astype(obj.dtype if dtype is None else dtype, order=order, copy=False)
    if result.ndim < ndmin:
        result = result[(None,) * (ndmin - result.ndim)]
    return result


def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool = False) -> Array:
    """The device array itself, or host data copied to the device."""
    return array(a, dtype, copy, order or "K")


def asnumpy(a: Any) -> np.ndarray:
    """The array on the host."""
    return get(a) if isinstance(a, Array) else np.asarray(a)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> Array:
    """An array full of values that must not be used: on a GPU it would have old data."""
    return poisoned(np.empty(shape, dtype, order))  # type: ignore[call-overload]


def empty_like(
    prototype: Array,
    dtype: Any = None,
    order: str = "K",
    subok: None = None,
    shape: Any = None,
) -> Array:
    """The same for an array like another one, also in its order in memory."""
    host = unwrap(prototype, "empty_like")
    return poisoned(np.empty_like(host, dtype, order, shape=shape))  # type: ignore[call-overload]


def poisoned(host: np.ndarray) -> Array:
    """Fill with NaN, or with the largest integer, which is out of range as an index."""
    if host.dtype.kind in "iu":
        host.fill(np.iinfo(host.dtype).max)
    else:
        host.fill(np.nan)
    return Array(host)


def put_along_axis(arr: Array, indices: Array, values: Any, axis: int) -> None:
    """Write `values` at `indices` along one axis, for each position of the other axes."""
    key = [
        indices if i == axis % arr.ndim else grid
        for i, grid in enumerate(map(Array, np.ix_(*map(range, indices.shape))))
    ]
    arr[tuple(key)] = values


def erf(x: Array, out: Array | None = None) -> Array:
    """The error function, as cupyx.scipy.special has it."""
    host = unwrap(x, "erf")
    dtype = np.float32 if host.dtype == np.float32 else np.float64
    values = np.array([math.erf(value) for value in host.ravel().tolist()], dtype)
    result = values.reshape(host.shape)
    refuse_accidental_float64("erf", [host], result)
    counts.launches += 1
    if out is None:
        return Array(result)
    np.copyto(unwrap(out, "erf(out=)"), result)
    return out


for special in (array, asarray, asnumpy, empty, empty_like, put_along_axis):
    setattr(xp, special.__name__, special)
xp.asanyarray = asarray
