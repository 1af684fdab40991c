"""Chapter 6: how an operation may be called.

An operation takes arrays first and options by name; or all by position, as in NumPy. What users
pass is made plain here: tensors are unwrapped, numbers and plain arrays adopt the tensors'
precision, mixed devices and precisions are refused, options that are NumPy's become Python's, so
that no precision is widened, and a name that does not exist is told with the nearest one that does.
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
"""What an option mostly is, and stays."""


class Signature:
    """The parameters of an operation: arrays, data without a gradient, and options.

    Args:
        formula: of its parameters the first is the array module, one that is annotated `Index` or
            `Mask` is data, and keyword-only ones are options.
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
        """What each of `count` arrays is: "Index", "Mask", or "" if it has a gradient."""
        return [""] * count if self.takes_list else self._kinds

    def bind(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """The arrays in order. Array arguments leave `options`, options by position enter.

        Raises: TypeError, ValueError if there are too few arguments, too many, or unknown ones.
        """
        if len(args) == len(self.arrays) and not self.takes_list and options.keys() <= self._known:
            return list(args)  # as most are called
        extra: tuple[Any, ...] = ()  # options that came by position
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
        """Make the numbers, shapes and axes among the options Python's; an index stays.

        Raises: TypeError for a Tensor, whose gradient would be lost.
        """
        for name, value in options.items():
            if type(value) in SIMPLE:  # as most are
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
            if name in ("dtype", "out"):  # NumPy has called a method: np.sum(x) is x.sum(dtype=..)
                raise TypeError(
                    f"{self.name}: np.{self.name} would lose the gradient of a Tensor x: write "
                    f"ops.{self.name}(x) instead; got the argument {name!r}"
                )
            known = [p.name for p in self.arrays] + self.options
            raise TypeError(f"{self.name}: unexpected argument {name!r}{nearest(name, known)}")


def plain_number(value: Any) -> Any:
    """A NumPy number as a Python number: it would widen float32. Anything else as it is."""
    if not isinstance(value, np.generic):
        return value
    return float(value) if value.dtype.kind == "f" else value.item()


def _python(value: Any) -> Any:
    """Numbers, shapes and axes as Python's; whatever else there is, as it is."""
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
    """Each argument's array, and where its gradient goes. Options become Python's, in place.

    Raises: TypeError, ValueError, IndexError with what does not fit.
    """
    signature = _signature(formula)
    found = _unwrap(signature, signature.bind(args, options))
    signature.settle(options)
    return found


def _unwrap(signature: Signature, args: list[Any]) -> tuple[list[Any], list[Source]]:
    """The raw values of `args`, and for each the node or leaf that its gradient goes to."""
    name, kinds = signature.name, signature.kinds(len(args))
    tensors = [a for a in args if isinstance(a, Tensor)]
    if not tensors:  # the first plain operand sets the precision and the device
        first = kinds.index("")
        args[first] = Tensor(args[first])
        tensors = [args[first]]
    if len({t._data.dtype for t in tensors}) > 1:
        raise TypeError(
            f"{name}: tensors must share one precision; got "
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
    """An argument without a gradient, made fit to meet `tensor`; indices as wide as NumPy's.

    Lists and numbers may move to the tensor's device, arrays may not. What an op keeps for its vjp
    is a copy: later changes by its owner do not reach it.
    """
    value = value._data if isinstance(value, Tensor) else plain_number(value)
    if value is None or (not kind and isinstance(value, (bool, int, float))):
        return value  # a Python number takes the array's precision
    if is_array(value) and device_of(value).name != tensor.device:
        raise TypeError(
            f"{name}: a tensor lives on {tensor.device} and an array on {device_of(value).name}; "
            "move one of them with .to(device)"
        )
    array, (letters, words) = value if is_array(value) else np.asarray(value), WANTED[kind]
    if array.dtype.kind not in letters and (array.size or kind != "Index"):
        raise TypeError(f"{name}: {what} must be {words}; got {array.dtype}")
    if kind == "Index" and array.dtype == np.uint64 and isinstance(array, np.ndarray):
        if array.size and array.max() > np.iinfo(np.intp).max:  # it would become a negative one
            raise IndexError(f"{name}: {what} must be indices; got {array.max()}")
    dtype = {"": tensor.dtype, "Index": np.intp, "Mask": None}[kind]
    return asarray(array, dtype, device=tensor.device).copy()


op.plain = plain
