"""Chapter 6: the arguments of an operation.

An operation takes arrays first and options by name; or all by position, as in NumPy. This file
checks and converts them. It unwraps tensors, gives numbers and plain arrays the dtype of the
tensors, and refuses mixed devices and dtypes. NumPy numbers among the options become Python
numbers, because they would widen float32. The error for an unknown name suggests a known one.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

from tinyattn import op
from tinyattn.backend import asarray, device_of, is_array
from tinyattn.dispatch import Function
from tinyattn.names import nearest
from tinyattn.op import Source
from tinyattn.tensor import Tensor

SIMPLE = {bool, int, float, str, type(None)}
"""The types of most options. Their values are not converted, and neither are tuples of integers."""
INTEGERS = {int}


class Signature:
    """The parameters of an operation: arrays, data without a gradient, and options.

    Args:
        formula: a function whose first parameter is the array module. A parameter with the
            annotation `Index` or `Mask` is data; keyword-only parameters are options.
    """

    def __init__(self, formula: Function) -> None:
        parameters = list(inspect.signature(formula).parameters.values())[1:]
        self.name = formula.__name__
        self.options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.arrays = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self._known = {*self.options}
        self.takes_list = any(p.kind is p.VAR_POSITIONAL for p in self.arrays)
        self._indices = {p.name for p in parameters if p.annotation == "Index"}
        self._kinds = [str(p.annotation) * (p.annotation in ("Index", "Mask")) for p in self.arrays]

    def kinds(self, count: int) -> list[str]:
        """For each of `count` arrays: "Index", "Mask", or "" if it has a gradient."""
        return [""] * count if self.takes_list else self._kinds

    def bind(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """The arrays in order. Arrays are removed from `options`, options by position are added.

        Raises: TypeError, ValueError for missing, surplus or unknown arguments.
        """
        if len(args) == len(self.arrays) and not self.takes_list and options.keys() <= self._known:
            return list(args)  # the usual case
        extra: tuple[Any, ...] = ()  # options given by position
        if self.takes_list:
            if args and isinstance(args[0], str):  # einsum("ij,jk->ik", a, b), as in NumPy
                extra, args = args[:1], args[1:]
            if args and isinstance(args[0], (list, tuple)):  # concatenate([a, b], 1)
                extra, args = extra + args[1:], tuple(args[0])
            if not args:
                raise ValueError(f"{self.name}: needs at least one tensor")
            arrays = list(args)
        else:
            arrays, extra = list(args[: len(self.arrays)]), args[len(self.arrays) :]
            for parameter in self.arrays[len(arrays) :]:
                if parameter.name not in options and parameter.default is parameter.empty:
                    self._refuse_unknown(options)
                    raise TypeError(f"{self.name}: argument {parameter.name!r} is missing")
                arrays.append(options.pop(parameter.name, None))
        if not self.takes_list and len(extra) > 1 == len(self.options):
            extra = (extra,)  # x.reshape(2, 3) means x.reshape((2, 3))
        if len(extra) > len(self.options):
            count = "a list of" if self.takes_list else len(self.arrays)
            raise TypeError(f"{self.name}: takes {count} arrays and {self.options}; got more")
        for name, value in zip(self.options, extra, strict=False):
            if name in options:
                raise TypeError(f"{self.name}: {name} was given twice")
            options[name] = value
        self._refuse_unknown(options)
        return arrays

    def settle(self, options: dict[str, Any]) -> None:
        """Convert numbers, shapes and axes among the options to Python's types, but no index.

        Raises: TypeError for a Tensor, whose gradient would be lost.
        """
        for name, value in options.items():
            kind = type(value)
            if kind in SIMPLE or (kind is tuple and INTEGERS.issuperset(map(type, value))):
                continue
            if isinstance(value, Tensor):
                raise TypeError(f"{self.name}: {name} is an option, which has no gradient; got a "
                                "Tensor: give a number, or its .data")  # fmt: skip
            if name not in self._indices:
                options[name] = _python(value)

    def _refuse_unknown(self, options: dict[str, Any]) -> None:
        for name in options:
            if name in self.options:
                continue
            if name in ("dtype", "out"):  # np.sum(x) has called x.sum(dtype=.., out=..)
                raise TypeError(
                    f"{self.name}: np.{self.name} would lose the gradient of a Tensor x: write "
                    f"ops.{self.name}(x) instead; got the argument {name!r}"
                )
            known = [p.name for p in self.arrays] + self.options
            raise TypeError(f"{self.name}: unexpected argument {name!r}{nearest(name, known)}")


def plain_number(value: Any) -> Any:
    """A NumPy number, which would widen float32, as a Python number; other values unchanged."""
    if not isinstance(value, np.generic):
        return value
    return float(value) if value.dtype.kind == "f" else value.item()


def _python(value: Any) -> Any:
    """Numbers, shapes and axes in Python's types; other values unchanged."""
    if isinstance(value, np.ndarray) and (value.ndim == 0 or value.dtype.kind in "iu"):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(_python(one) for one in value)
    return plain_number(value)


@functools.cache
def _signature(formula: Function) -> Signature:
    return Signature(formula)


def plain(
    formula: Function, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[list[Any], list[Source]]:
    """Each argument's array, and where its gradient goes. Options are converted in place.

    Raises: TypeError, ValueError, IndexError for arguments that do not fit.
    """
    signature = _signature(formula)
    found = _unwrap(signature, signature.bind(args, options))
    signature.settle(options)
    return found


def _unwrap(signature: Signature, args: list[Any]) -> tuple[list[Any], list[Source]]:
    """The arrays of `args`, and for each the node or leaf that its gradient goes to."""
    name, kinds = signature.name, signature.kinds(len(args))
    tensors = [a for a in args if isinstance(a, Tensor)]
    if not tensors:  # the first operand sets the dtype and the device
        first = kinds.index("")
        args[first] = Tensor(args[first])
        tensors = [args[first]]
    if len(tensors) > 1 and len({t._data.dtype for t in tensors}) > 1:
        raise TypeError(
            f"{name}: tensors must share one dtype; got "
            f"{' and '.join(str(t.dtype) for t in tensors)}; convert with .astype"
        )
    values: list[Any] = []
    sources: list[Source] = []
    for i, (arg, kind) in enumerate(zip(args, kinds, strict=True)):
        if isinstance(arg, Tensor) and not kind:
            values.append(arg._data)
            sources.append((arg._node or arg) if arg.requires_grad else None)
        else:
            what = signature.arrays[i].name if kind else "operands"
            values.append(_operand(name, what, kind, arg, tensors[0]))
            sources.append(None)
    return values, sources


WANTED = {"": ("iubf", "real numbers"), "Index": ("iu", "integers"), "Mask": ("b", "boolean")}


def _operand(name: str, what: str, kind: str, value: Any, tensor: Tensor) -> Any:
    """An argument without a gradient, with the dtype and device of `tensor`; an index as intp.

    Lists and numbers may move to the tensor's device, arrays may not. The operation keeps a copy
    for its vjp, so later changes of the caller's array do not reach it.
    """
    value = value._data if isinstance(value, Tensor) else plain_number(value)
    if value is None or (not kind and isinstance(value, (bool, int, float))):
        return value  # a Python number takes the array's dtype
    if is_array(value) and device_of(value).name != tensor.device:
        raise TypeError(
            f"{name}: a tensor is on {tensor.device} and an array on {device_of(value).name}; "
            "move one of them with .to(device)"
        )
    array, (letters, words) = value if is_array(value) else np.asarray(value), WANTED[kind]
    if array.dtype.kind not in letters and (array.size or kind != "Index"):
        raise TypeError(f"{name}: {what} must be {words}; got {array.dtype}")
    if kind == "Index" and array.dtype == np.uint64 and isinstance(array, np.ndarray):
        if array.size and array.max() > np.iinfo(np.intp).max:  # as intp it would be negative
            raise IndexError(f"{name}: {what} must be indices; got {array.max()}")
    dtype = {"": tensor.dtype, "Index": np.intp, "Mask": None}[kind]
    return asarray(array, dtype, device=tensor.device).copy()


op.plain = plain
