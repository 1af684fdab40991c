"""Chapter 2b: how an operation may be called.

An operation takes arrays first and options by name; or all by position, as in NumPy. What users
pass is made plain here: options that are NumPy's become Python's, so that no precision is widened,
and a name that does not exist is told with the nearest one that does. Next: what makes a function
an operation (op.py).
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tinyattn.backend import plain_number
from tinyattn.names import nearest

Index = Any
"""Annotation of a parameter that holds integers, which have no gradient."""
Mask = Any
"""Annotation of a parameter that holds booleans, which have no gradient."""


class Signature:
    """The parameters of an operation: arrays, data without a gradient, and options.

    Args:
        name: of the operation, for messages.
        parameters: of its function, without the array module. One that is annotated `Index` or
            `Mask` is data; keyword-only ones are options.
    """

    def __init__(self, name: str, parameters: list[inspect.Parameter]) -> None:
        self.name = name
        self.options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.arrays = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self.takes_list = any(p.kind is p.VAR_POSITIONAL for p in self.arrays)
        self._indices = {p.name for p in parameters if p.annotation == "Index"}
        self._kinds = [
            p.annotation if p.annotation in ("Index", "Mask") else "" for p in self.arrays
        ]

    def bind(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """The arrays in order. Array arguments leave `options`, options by position enter.

        Raises: TypeError, ValueError if there are too few arguments, too many, or unknown ones.
        """
        arrays = self._bind_list(args, options) if self.takes_list else self._bind(args, options)
        for name in options:
            if name not in self.options:
                raise TypeError(self._unknown(name))
        return arrays

    def plain(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options, with NumPy's numbers, shapes and axes as Python's; an index stays.

        Raises: TypeError for a Tensor, whose gradient would be lost.
        """
        for name, value in options.items():
            if hasattr(value, "requires_grad"):
                raise TypeError(f"{self.name}: {name} is an option, which has no gradient; got a "
                                "Tensor: give a number, or its .data")  # fmt: skip
        return {k: v if k in self._indices else _plain(v) for k, v in options.items()}

    def kinds(self, count: int) -> list[str]:
        """What each of `count` arrays is: "Index", "Mask", or "" if it has a gradient."""
        return [""] * count if self.takes_list else self._kinds

    def _bind(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        count = len(self.arrays)
        bound, extra = list(args[:count]), args[count:]
        for parameter in self.arrays[len(bound) :]:
            if parameter.name not in options and parameter.default is parameter.empty:
                other = [name for name in options if name not in self.options]
                raise TypeError(
                    self._unknown(other[0])
                    if other
                    else f"{self.name}: argument {parameter.name!r} is missing"
                )
            bound.append(options.pop(parameter.name, None))
        if extra:
            if len(extra) > 1 and len(self.options) == 1:
                extra = (extra,)  # x.reshape(2, 3) means x.reshape((2, 3))
            self._name_options(extra, options)
        return bound

    def _bind_list(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        if args and isinstance(args[0], str):  # einsum("ij,jk->ik", a, b), as in NumPy
            self._name_options(args[:1], options)
            args = args[1:]
        if args and isinstance(args[0], (list, tuple)):  # concatenate([a, b], 1)
            self._name_options(args[1:], options)
            args = tuple(args[0])
        if not args:
            raise ValueError(f"{self.name}: needs at least one tensor")
        return list(args)

    def _name_options(self, values: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Give options that came by position their names."""
        if len(values) > len(self.options):
            count = "a list of" if self.takes_list else len(self.arrays)
            raise TypeError(f"{self.name}: takes {count} arrays and {self.options}; got more")
        for name, value in zip(self.options, values, strict=False):
            if name in options:
                raise TypeError(f"{self.name}: {name} was given twice")
            options[name] = value

    def _unknown(self, name: str) -> str:
        """What to say of an argument that does not exist."""
        known = [p.name for p in self.arrays] + self.options
        if name in ("dtype", "out"):  # NumPy has called a method: np.sum(x) is x.sum(dtype=..)
            return (f"{self.name}: np.{self.name} would lose the gradient of a Tensor x: write "
                    f"ops.{self.name}(x) instead; got the argument {name!r}")  # fmt: skip
        return f"{self.name}: unexpected argument {name!r}{nearest(name, known)}"


def _plain(value: Any) -> Any:
    """Numbers, shapes and axes as Python's; whatever else there is, as it is."""
    if isinstance(value, np.ndarray) and (value.ndim == 0 or value.dtype.kind in "iu"):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(_plain(one) for one in value)
    return plain_number(value)
