"""Chapter 2b: how a function of arrays becomes an operation on tensors.

Every operation of the engine is one plain function: it receives the array module and arrays,
and returns its value and beside it what the derivation on paper gives for its gradient:

    @op
    def multiply(xp, a, b):
        return a * b, (lambda g: g * b, lambda g: g * a)

The second half of the return value is the *vjp*: for each input, how its gradient follows from
the gradient g of the result.
What is the same for all of them happens here, once: Tensors are unwrapped, numbers and plain
arrays adopt the tensors' precision, mixed devices and precisions are refused, gradients of
broadcast inputs are summed back to their shape, gradients that nobody needs are not computed
(and the arrays for them not kept alive), and the function enters the table `OPS`. Next: the
operations (ops/).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinyattn.backend import Array, asarray, device_of, is_array, plain_number
from tinyattn.graph import Node, recording
from tinyattn.tensor import OPS, Tensor, result
from tinyattn.twins import fastest

Index = Any
"""Annotation of an op's parameter that holds integers, which have no gradient."""
Mask = Any
"""Annotation of an op's parameter that holds booleans, which have no gradient."""

Function = Callable[..., Any]
"""What an op is made of: function(xp, *arrays, **options) -> (value, vjp)."""

_observers: list[Callable[[Function], Function]] = []


@contextmanager
def observed(observer: Callable[[Function], Function]) -> Iterator[None]:
    """Inside this context every op, in every thread, calls observer(function), not its function.

    What the observer returns must give what the function gives, and may look at the clock before
    and after, or count, as the profiler does (training/profile.py).
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def op(function: Function) -> Callable[..., Tensor]:
    """Make a Tensor operation of `function(xp, *arrays, **options) -> (value, vjp)`.

    Positional parameters are arrays; one that defaults to None may be left out, and one annotated
    `Index` or `Mask` is data that has no gradient. Keyword-only parameters are options. `vjp` is
    a tuple with one function of g for each array, called only if its gradient is needed; or,
    where the gradients share work, a single function that returns them all in a tuple.
    """
    name = function.__name__
    signature = _Signature(name, list(inspect.signature(function).parameters.values())[1:])

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Tensor:
        bound, is_data = signature.bind(args, options)
        values, sources = _unwrap(name, bound, is_data)
        xp = device_of(*[v for v in values if hasattr(v, "shape")]).xp
        try:
            plain = {k: plain_number(v) for k, v in options.items()}
            run = function if xp is np else fastest(xp, name, function)
            for observer in _observers:  # hardly ever one
                run = observer(run)
            value, vjp = run(xp, *values, **plain)
        except (ValueError, TypeError, IndexError) as error:
            if str(error).startswith(f"{name}:"):
                raise
            shapes = " and ".join(str(tuple(v.shape)) for v in values if hasattr(v, "shape"))
            raise type(error)(f"{name}: {error}; got {shapes}") from error
        value = value if is_array(value) else asarray(value)  # NumPy makes numbers of 0-d arrays
        return result(value, _node(name, values, sources, vjp) if recording() else None)

    OPS[name] = call
    return call


class _Signature:
    """How an op may be called: arrays first, options by name, or both as in NumPy."""

    def __init__(self, name: str, parameters: list[inspect.Parameter]) -> None:
        self.name = name
        self.options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.arrays = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self.is_data = [p.annotation in ("Index", "Mask") for p in self.arrays]
        self.takes_list = any(p.kind is p.VAR_POSITIONAL for p in self.arrays)

    def bind(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], list[bool]]:
        """The arrays in order, and which are data. Array arguments leave `options`, options enter.

        Raises: TypeError, ValueError if there are too few arguments or too many.
        """
        if self.takes_list:
            return self._bind_list(args, options)
        count = len(self.arrays)
        bound, extra = list(args[:count]), args[count:]
        for parameter in self.arrays[len(bound) :]:
            if parameter.name not in options and parameter.default is parameter.empty:
                raise TypeError(f"{self.name}: argument {parameter.name!r} is missing")
            bound.append(options.pop(parameter.name, None))
        if extra:
            if len(extra) > 1 and len(self.options) == 1:
                extra = (extra,)  # x.reshape(2, 3) means x.reshape((2, 3))
            self._name_options(extra, options)
        return bound, self.is_data

    def _bind_list(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[list[Any], list[bool]]:
        if args and isinstance(args[0], str):  # einsum("ij,jk->ik", a, b), as in NumPy
            self._name_options(args[:1], options)
            args = args[1:]
        if args and isinstance(args[0], (list, tuple)):  # concatenate([a, b], 1)
            self._name_options(args[1:], options)
            args = tuple(args[0])
        if not args:
            raise ValueError(f"{self.name}: needs at least one tensor")
        return list(args), [False] * len(args)

    def _name_options(self, values: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Give options that came by position their names."""
        if len(values) > len(self.options):
            count = "a list of" if self.takes_list else len(self.arrays)
            raise TypeError(f"{self.name}: takes {count} arrays and {self.options}; got more")
        for name, value in zip(self.options, values, strict=False):
            if name in options:
                raise TypeError(f"{self.name}: {name} was given twice")
            options[name] = value


def _unwrap(
    name: str, args: list[Any], is_data: list[bool]
) -> tuple[list[Any], list[Node | Tensor | None]]:
    """The raw values of `args`, and for each the node or leaf that its gradient goes to."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    if not tensors:  # the first plain operand sets the precision and the device
        first = is_data.index(False)
        args[first] = Tensor(args[first])
        tensors = [args[first]]
    if len({t._data.dtype for t in tensors}) > 1:
        raise TypeError(
            f"{name}: tensors must share one precision; got "
            f"{' and '.join(str(t.dtype) for t in tensors)}; convert with .astype"
        )
    values: list[Any] = []
    sources: list[Node | Tensor | None] = []
    for arg, data in zip(args, is_data, strict=True):
        if isinstance(arg, Tensor):
            values.append(arg._data)
            sources.append((arg._node or arg) if arg.requires_grad else None)
        else:
            values.append(_constant(name, arg, tensors[0], data))
            sources.append(None)
    return values, sources


def _constant(name: str, value: Any, tensor: Tensor, is_data: bool) -> Any:
    """An operand that is not a Tensor, made fit to meet `tensor`."""
    value = plain_number(value)
    if value is None or (isinstance(value, (bool, int, float)) and not is_data):
        return value  # a Python number takes the array's precision
    if is_array(value) and device_of(value).name != tensor.device:
        raise TypeError(
            f"{name}: a tensor lives on {tensor.device} and an array on {device_of(value).name}; "
            "move one of them with .to(device)"
        )
    array = value if is_array(value) else np.asarray(value)
    if array.dtype.kind not in "iubf":
        raise TypeError(f"{name}: operands must be real numbers; got {array.dtype}")
    array = asarray(array, None if is_data else tensor.dtype, device=tensor.device)
    return array.copy()  # later changes by its owner do not reach the vjp


def _node(
    name: str, values: list[Any], sources: list[Node | Tensor | None], vjp: Any
) -> Node | None:
    """The graph node of one call, or None if no input needs a gradient."""
    needed = [i for i, source in enumerate(sources) if source is not None]
    if not needed:
        return None
    shapes = [values[i].shape for i in needed]
    if callable(vjp):

        def pull(g: Array) -> list[Array]:
            shares = vjp(g)
            return [_sum_to(shares[i], shape) for i, shape in zip(needed, shapes, strict=True)]
    else:
        vjps = [vjp[i] for i in needed]  # the others, and the arrays they hold, are let go

        def pull(g: Array) -> list[Array]:
            return [_sum_to(f(g), shape) for f, shape in zip(vjps, shapes, strict=True)]

    return Node(name, [source for source in sources if source is not None], pull)


def _sum_to(g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: an input used in many places receives the sum of their gradients."""
    if not is_array(g):  # NumPy makes numbers of 0-d arrays
        g = asarray(g)
    if g.shape == shape:
        return g
    if g.ndim > len(shape):
        g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=stretched, keepdims=True) if stretched else g
