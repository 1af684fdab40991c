"""The simulated device: its arrays, copies to it and from it, and functions on its arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from strict.indexing import points_twice
from strict.surface import PYTHON_VALUES, SURFACE, Signature


class DeviceError(AssertionError):
    """CuPy would accept this, and then be slow or silently wrong."""


@dataclass
class Counts:
    """The launches and copies of a program.

    A launch is one call of a function that computes; some of CuPy's take several kernels.
    A copy to the host makes the host wait until the device is ready.
    """

    launches: int = 0
    to_device: int = 0
    to_host: int = 0

    def reset(self) -> None:
        """Start again from zero."""
        self.launches = 0
        self.to_device = 0
        self.to_host = 0


counts = Counts()

# Operands that need no copy: they are arguments of the launch itself.
SCALARS = (bool, int, float, complex, np.generic)
# Arguments that are not data, such as the subscripts of einsum.
LABELS = (type(None), str, type, np.dtype)
# Device memory contains numbers and booleans only.
NUMBERS = frozenset("?bBhHiIlLqQefdFD")
# New results are in C order on the device, except those of these functions.
KEEPS_ORDER = frozenset(
    """
    asfortranarray astype copy einsum full full_like ones ones_like zeros zeros_like
    """.split()
)
# The size of their results depends on values, so the host has to wait for it.
SYNCHRONISES = frozenset(
    """
    argwhere bincount compress extract flatnonzero histogram intersect1d nonzero setdiff1d
    setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values
    """.split()
)


# Host and device ---------------------------------------------------------------------------


def put(host: object, dtype: Any = None) -> Array:
    """Copy an array (or numbers in a list) from the host to the device."""
    copy = np.array(host, dtype=dtype)
    if copy.dtype.char not in NUMBERS:
        raise ValueError(f"Unsupported dtype {copy.dtype}")
    counts.to_device += 1
    return Array(copy)


def get(array: Array) -> np.ndarray:
    """Copy an array from the device to the host."""
    if not isinstance(array, Array):
        raise TypeError(f"get() takes a device array, not {type(array).__name__}")
    return array.get()


def unwrap(value: Any, where: str) -> Any:
    """The NumPy value behind an argument; data on the host is refused."""
    if isinstance(value, Array):
        return value._host
    if isinstance(value, SCALARS) or isinstance(value, LABELS):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, Array) for item in value):
        return [item._host for item in value]
    raise TypeError(f"{where}: unsupported type {type(value)}; the device takes its own arrays")


def wrap(value: Any) -> Any:
    """The device's view of a NumPy result: numbers become 0-d arrays."""
    if isinstance(value, (np.ndarray, *SCALARS)):
        return Array(np.asarray(value))
    if isinstance(value, list):
        return [wrap(item) for item in value]
    if isinstance(value, tuple):
        return tuple(wrap(item) for item in value)
    return value


# Running functions -------------------------------------------------------------------------


def launch_ufunc(ufunc: np.ufunc, operands: Sequence[Any], out: Any = None, **options: Any) -> Any:
    """Run one elementwise function (or matmul) on device arrays and scalars."""
    name = ufunc.__name__
    hosts = [operand_on_host(name, operand) for operand in operands]
    if out is None:
        options.setdefault("order", "C")
        with np.errstate(all="ignore"):  # a GPU does not warn
            result = ufunc(*hosts, **options)
        if "dtype" not in options:
            refuse_accidental_float64(name, hosts, result)
        counts.launches += 1
        return wrap(result)
    outs = out if isinstance(out, tuple) else (out,)
    host_outs = tuple(unwrap(item, f"{name}(out=)") for item in outs)
    refuse_wasted_float64(name, hosts, host_outs)
    with np.errstate(all="ignore"):
        ufunc(*hosts, out=host_outs, **options)
    counts.launches += 1
    return outs[0] if len(outs) == 1 else outs


def operand_on_host(name: str, operand: Any) -> Any:
    """The NumPy value of something to compute with: a device array or a scalar."""
    if isinstance(operand, Array):
        return operand._host
    if isinstance(operand, SCALARS):
        return operand
    raise TypeError(f"{name}: unsupported type {type(operand)}; the device takes its own arrays")


def launch(
    name: str,
    signature: Signature,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Run any other NumPy function on device arrays, with the arguments that CuPy's has."""
    signature.check(name, args, kwargs)
    hosts = [lower(name, signature.name_of(i), value) for i, value in enumerate(args)]
    options = {key: lower(name, key, value) for key, value in kwargs.items()}
    inputs = arrays_in([*hosts, *options.values()])
    out = signature.argument("out", args, kwargs)
    dtype = signature.argument("dtype", args, kwargs)
    if out is not None:
        refuse_wasted_float64(name, inputs, arrays_in([unwrap(out, name)]))
    if name == "astype":
        refuse_undefined_cast(inputs, dtype)

    try:
        with np.errstate(all="ignore"):
            result = function(*hosts, **options)
    except IndexError as error:
        explain(error)

    counts.to_host += synchronises(name, args, inputs)
    if out is not None:
        counts.launches += 1
        return out
    for value in (*args, *kwargs.values()):
        if isinstance(value, Array) and value._host is result:
            return value  # nothing to do, as in astype(copy=False)
    if is_view(result, inputs):
        return wrap(result)
    counts.launches += 1
    if dtype is None:
        refuse_accidental_float64(name, inputs, result)
    if isinstance(result, np.ndarray) and name not in KEEPS_ORDER:
        result = np.asarray(result, order="C")
    return wrap(result)


def explain(error: IndexError) -> NoReturn:
    """Positions out of range are an error on the host only."""
    if "out of bounds" in str(error) and not isinstance(error, np.exceptions.AxisError):
        message = f"{error}: a GPU wraps positions around silently; check them on the host"
        raise DeviceError(message) from None
    raise error


def synchronises(name: str, args: Sequence[Any], inputs: Sequence[np.ndarray]) -> bool:
    """Whether the host has to wait for values on the device to get the size of the result."""
    if name == "where":
        return len(args) == 1
    if name == "repeat":
        return len(inputs) > 1
    return name in SYNCHRONISES


def lower(function: str, parameter: str | None, value: Any) -> Any:
    """The value for NumPy of one argument, depending on its parameter."""
    if parameter not in PYTHON_VALUES:
        return unwrap(value, f"{function}({parameter})")
    if isinstance(value, (Array, np.ndarray)):
        raise TypeError(f"{function}({parameter}) takes a Python value, not {type(value)}")
    return value


def arrays_in(values: Any) -> list[np.ndarray]:
    """The NumPy arrays among some arguments, also those inside lists."""
    arrays: list[np.ndarray] = []
    for value in values:
        if isinstance(value, np.ndarray):
            arrays.append(value)
        elif isinstance(value, list):
            arrays.extend(item for item in value if isinstance(item, np.ndarray))
    return arrays


def is_view(result: Any, inputs: Sequence[np.ndarray]) -> bool:
    """Whether a result (or the first of several) is a view of an input's memory."""
    if isinstance(result, (list, tuple)) and result:
        result = result[0]
    if not isinstance(result, np.ndarray) or result.base is None:
        return False
    return any(np.may_share_memory(result, array) for array in inputs)


# Number types ------------------------------------------------------------------------------


def is_short_float(value: Any) -> bool:
    """Whether this is a float32 or float16 array."""
    return isinstance(value, np.ndarray) and value.dtype.char in "ef"


def refuse_accidental_float64(name: str, operands: Sequence[Any], result: Any) -> None:
    """Raises if float32 operands give a float64 result, which is slow, also in later calls."""
    if isinstance(result, (np.ndarray, np.generic)) and result.dtype.char == "d":
        if any(is_short_float(operand) for operand in operands):
            raise DeviceError(
                f"{name}: float32 became float64. A np.float64 scalar, an integer or a float64 "
                "array does that; use math instead of np for scalars, or say astype"
            )


def refuse_wasted_float64(name: str, operands: Sequence[Any], outs: Sequence[Any]) -> None:
    """Raises if a float64 sum is then rounded to a float32 `out`."""
    if any(is_short_float(out) for out in outs):
        if any(getattr(operand, "dtype", None) == np.float64 for operand in operands):
            raise DeviceError(f"{name}: computed in float64, stored in float32; say astype")


def refuse_undefined_cast(arrays: Sequence[np.ndarray], dtype: Any) -> None:
    """Raises if floats do not fit an integer type: CPUs and GPUs have different results."""
    target = np.dtype(dtype)
    if target.kind not in "iu":
        return
    span = np.iinfo(target)
    for array in arrays:
        if array.dtype.kind != "f" or array.size == 0:
            continue
        # NaN fails both comparisons.
        if not (array.min() > float(span.min) - 1 and array.max() < float(span.max) + 1):
            raise DeviceError(f"astype: values outside of {target} come out different on a GPU")


# The array ---------------------------------------------------------------------------------


CUPYS_PRIORITY = 100


def is_foreign(other: Any) -> bool:
    """Whether an operand declares (in one of NumPy's two ways) that it handles operators itself."""
    if isinstance(other, (Array, np.ndarray, *SCALARS)):
        return False
    other_type = type(other)
    if hasattr(other_type, "__array_ufunc__"):
        return other_type.__array_ufunc__ is None
    return getattr(other_type, "__array_priority__", 0) > CUPYS_PRIORITY


def binary(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    """The method behind an operator such as a < b."""

    def method(self: Array, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else launch_ufunc(ufunc, (self, other))

    return method


def reflected(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    """The method behind an operator whose left operand is no device array, such as 1 - a."""

    def method(self: Array, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else launch_ufunc(ufunc, (other, self))

    return method


def in_place(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    """The method behind an operator such as a += b, which writes into the memory of a."""

    def method(self: Array, other: Any) -> Any:
        if is_foreign(other):
            return NotImplemented
        return launch_ufunc(ufunc, (self, other), out=self)

    return method


def arithmetic(ufunc: np.ufunc) -> tuple[Callable[[Array, Any], Any], ...]:
    """The three methods of an operator: a + b, b + a and a += b."""
    return binary(ufunc), reflected(ufunc), in_place(ufunc)


def unary(ufunc: np.ufunc) -> Callable[[Array], Any]:
    """The method behind an operator such as -a."""
    return lambda self: launch_ufunc(ufunc, (self,))


class Flags(NamedTuple):
    """The flags of CuPy; device memory cannot be read-only."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool


class Array:
    """An array on the simulated device.

    It contains a NumPy array and is not a subclass of it: NumPy would compute with a subclass
    without calling its methods.
    """

    __slots__ = ("__weakref__", "_host")

    # NumPy then uses the operators of this class, and raises TypeError for np.exp(array).
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: np.ndarray) -> None:
        self._host = host

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed; use get()")

    def __array_function__(self, function: Callable[..., Any], *rest: Any) -> Any:
        raise DeviceError(f"np.{function.__name__} called on a device array; use xp")

    # Methods that copy to the host.

    def get(self) -> np.ndarray:
        """Copy the array to the host."""
        counts.to_host += 1
        return self._host.copy()

    def item(self) -> Any:
        """Copy the only element to the host, as a Python number."""
        return self.get().item()

    def tolist(self) -> Any:
        """Copy the array to the host, as nested lists."""
        return self.get().tolist()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, spec: str) -> str:
        return format(self.get(), spec)

    def set(self, host: np.ndarray) -> None:
        """Copy a host array of the same shape and type into this one."""
        if host.dtype != self.dtype or host.shape != self.shape:
            raise TypeError(f"cannot set {host.dtype}{host.shape} to {self.dtype}{self.shape}")
        counts.to_device += 1
        self._host[...] = host

    # Copies.

    def __copy__(self) -> Array:
        counts.launches += 1
        return Array(self._host.copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise DeviceError("a pickled device array needs a GPU to be read again; get() it first")

    # Properties.

    shape = property(operator.attrgetter("_host.shape"))
    strides = property(operator.attrgetter("_host.strides"))
    dtype = property(operator.attrgetter("_host.dtype"))
    ndim = property(operator.attrgetter("_host.ndim"))
    size = property(operator.attrgetter("_host.size"))
    itemsize = property(operator.attrgetter("_host.itemsize"))
    nbytes = property(operator.attrgetter("_host.nbytes"))
    T = property(lambda self: Array(self._host.T))
    mT = property(lambda self: Array(self._host.mT))
    real = property(lambda self: Array(self._host.real))
    imag = property(lambda self: Array(self._host.imag))

    @property
    def flags(self) -> Flags:
        """The memory order of the array."""
        flags = self._host.flags
        return Flags(flags.c_contiguous, flags.f_contiguous, flags.owndata)

    def __getattr__(self, name: str) -> Any:
        if name in SURFACE["methods"]:
            raise AttributeError(f"cupy.ndarray has {name!r}, the strict stand-in does not")
        raise AttributeError(f"cupy.ndarray has no attribute {name!r}")

    # Indexing.

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def _lower_key(self, key: Any) -> tuple[tuple[Any, ...], bool]:
        """The key for NumPy, and whether there are arrays in it, so that indexing copies."""
        parts = key if isinstance(key, tuple) else (key,)
        lowered = []
        copies = False
        for part in parts:
            if isinstance(part, Array):
                copies = True
                part = part._host
                if part.dtype == np.bool_:
                    counts.to_host += 1  # the host needs the number of true elements
            elif isinstance(part, (list, tuple, np.ndarray)):
                raise DeviceError("a host index is copied to the device each time; put() it once")
            lowered.append(part)
        if not copies and Ellipsis not in lowered:
            lowered.append(Ellipsis)  # so that also a single element is a view
        return tuple(lowered), copies

    def __getitem__(self, key: Any) -> Array:
        key, copies = self._lower_key(key)
        if not copies:
            return Array(self._host[key])
        counts.launches += 1
        try:
            return Array(np.array(self._host[key], order="C"))
        except IndexError as error:
            explain(error)

    def __setitem__(self, key: Any, value: Any) -> None:
        key, copies = self._lower_key(key)
        host_value = unwrap(value, "x[key] = value")
        if copies and np.size(host_value) > 1 and points_twice(key, self.shape):
            raise DeviceError("x[key] = values with repeated indices: undefined which one wins")
        if not copies and is_same_memory(self._host[key], host_value):
            return  # the last step of x[key] += 1, which was done in place
        counts.launches += 1
        try:
            with np.errstate(all="ignore"):
                self._host[key] = host_value
        except IndexError as error:
            explain(error)

    # Operators.

    __add__, __radd__, __iadd__ = arithmetic(np.add)
    __sub__, __rsub__, __isub__ = arithmetic(np.subtract)
    __mul__, __rmul__, __imul__ = arithmetic(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = arithmetic(np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = arithmetic(np.floor_divide)
    __mod__, __rmod__, __imod__ = arithmetic(np.remainder)
    __pow__, __rpow__, __ipow__ = arithmetic(np.power)
    __and__, __rand__, __iand__ = arithmetic(np.bitwise_and)
    __or__, __ror__, __ior__ = arithmetic(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = arithmetic(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = arithmetic(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = arithmetic(np.right_shift)
    __matmul__, __rmatmul__ = binary(np.matmul), reflected(np.matmul)
    __divmod__, __rdivmod__ = binary(np.divmod), reflected(np.divmod)
    __eq__ = binary(np.equal)
    __ne__ = binary(np.not_equal)
    __lt__ = binary(np.less)
    __le__ = binary(np.less_equal)
    __gt__ = binary(np.greater)
    __ge__ = binary(np.greater_equal)
    __neg__ = unary(np.negative)
    __pos__ = unary(np.positive)
    __abs__ = unary(np.absolute)
    __invert__ = unary(np.invert)


def is_same_memory(host: np.ndarray, other: Any) -> bool:
    """Whether two arrays are the same elements in memory."""
    if not isinstance(other, np.ndarray) or not np.may_share_memory(host, other):
        return False
    if host.shape != other.shape or host.strides != other.strides:
        return False
    start, other_start = (array.__array_interface__["data"][0] for array in (host, other))
    return bool(start == other_start)


# Methods -----------------------------------------------------------------------------------


def method(name: str, text: str) -> Callable[..., Any]:
    """NumPy's method of that name, with the parameters of CuPy's."""
    function = getattr(np.ndarray, name)
    signature = Signature.parse(f"(self, {text.strip('()')})")

    def call(*args: Any, **kwargs: Any) -> Any:
        return launch(name, signature, function, args, kwargs)

    call.__name__ = name
    call.__doc__ = function.__doc__
    return call


# Methods that use the memory or the disk of the host, or write in no defined order.
NOT_OFFERED = frozenset("dump dumps put tobytes tofile".split())

for _name, _text in SURFACE["methods"].items():
    if _text.startswith("(") and hasattr(np.ndarray, _name) and _name not in NOT_OFFERED:
        if _name not in vars(Array):
            setattr(Array, _name, method(_name, _text))
