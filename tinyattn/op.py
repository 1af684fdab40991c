"""Chapter 2c: how a function of arrays becomes an operation on tensors.

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
from tinyattn.dispatch import FORMULAS, Function, choose, dispatched
from tinyattn.graph import Node, recording
from tinyattn.signature import Index, Mask, Signature
from tinyattn.tensor import OPS, Tensor, result

__all__ = ["Function", "Index", "Mask", "observed", "op", "sum_over"]

Observer = Callable[[str, Function, str], Function]
"""observer(name, function, reason) -> function; the reason is that of `dispatch.choose`."""

_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Inside this context every op, in every thread, calls what `observer` makes of its function.

    That must give what the function gives, and may look at the clock before and after, or count.
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def op(function: Function | None = None, *, check: Function | None = None) -> Any:
    """Make a Tensor operation of `function(xp, *arrays, **options) -> (value, vjp)`.

    Positional parameters are arrays; one that defaults to None may be left out, and one annotated
    `Index` or `Mask` is data that has no gradient. Keyword-only parameters are options. `vjp` is
    a tuple with one function of g for each array, called only if its gradient is needed; or,
    where the gradients share work, a single function that returns them all in a tuple.

    Args: check: takes the same arguments before anybody computes, and raises what is wrong.
    """
    if function is None:
        return functools.partial(op, check=check)
    name = function.__name__
    FORMULAS[name] = function
    signature = Signature(name, list(inspect.signature(function).parameters.values())[1:])

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Tensor:
        values, sources = _unwrap(signature, signature.bind(args, options))
        options = signature.plain(options)
        device = device_of(*[v for v in values if hasattr(v, "shape")])
        xp = device.xp
        try:
            if check is not None:
                check(xp, *values, **options)
            run, reason = choose(name, device.name, (xp, *values), options)
            for observer in _observers:  # hardly ever one
                run = observer(name, run, reason)
            value, vjp = _pair(run(xp, *values, **options), len(values))
        except (ValueError, TypeError, IndexError) as error:
            if str(error).startswith(f"{name}:"):
                raise
            raise type(error)(f"{name}: {error}; got {_shapes(values)}") from error
        except AttributeError as error:
            if all(hasattr(v, "shape") for v in values):
                raise
            raise TypeError(f"{name}: needs arrays; got {_shapes(values)}") from error
        value = value if is_array(value) else asarray(value)  # NumPy makes numbers of 0-d arrays
        return result(value, _node(name, values, sources, vjp) if recording() else None)

    OPS[name] = call
    return call


def _shapes(values: list[Any]) -> str:
    """The shapes of the arrays, and what else there is, for messages."""
    said = (tuple(v.shape) if hasattr(v, "shape") else v for v in values if v is not None)
    return " and ".join(map(str, said))


def _pair(made: Any, count: int) -> tuple[Any, Any]:
    """What a function gave, if it is a value and the gradients of `count` arrays."""
    if not (isinstance(made, tuple) and len(made) == 2):
        raise TypeError(
            "an op returns its value and, beside it, its vjp: a tuple with a function of g for "
            f"each array; got {type(made).__name__}"
        )
    vjp = made[1]
    if not callable(vjp) and not (isinstance(vjp, tuple) and len(vjp) == count):
        raise TypeError(
            f"the vjp must be a tuple of {count} functions of g, one for each array, or one "
            f"function that returns so many gradients; got {vjp!r}"
        )
    return made


def _unwrap(signature: Signature, args: list[Any]) -> tuple[list[Any], list[Node | Tensor | None]]:
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
    sources: list[Node | Tensor | None] = []
    for i, (arg, kind) in enumerate(zip(args, kinds, strict=True)):
        if kind:
            values.append(_data(f"{name}: {signature.arrays[i].name}", arg, tensors[0], kind))
            sources.append(None)
        elif isinstance(arg, Tensor):
            values.append(arg._data)
            sources.append((arg._node or arg) if arg.requires_grad else None)
        else:
            values.append(_constant(name, arg, tensors[0]))
            sources.append(None)
    return values, sources


def _constant(name: str, value: Any, tensor: Tensor) -> Any:
    """An operand that is not a Tensor, made fit to meet `tensor`."""
    value = plain_number(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value  # a Python number takes the array's precision
    array = _near(name, value, tensor)
    if array.dtype.kind not in "iubf":
        raise TypeError(f"{name}: operands must be real numbers; got {array.dtype}")
    return asarray(array, tensor.dtype, device=tensor.device).copy()


def _data(name: str, value: Any, tensor: Tensor, kind: str) -> Any:
    """Booleans or integers that go with `tensor`; integers as wide as an index of NumPy."""
    if value is None:
        return None
    array = _near(name.partition(":")[0], value, tensor)
    if kind == "Mask":
        if array.dtype != bool:
            raise TypeError(f"{name} must be boolean; got {array.dtype}")
        return asarray(array, device=tensor.device).copy()
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must be integers; got {array.dtype}")
    if array.dtype == np.uint64 and isinstance(array, np.ndarray) and array.size:
        if array.max() > np.iinfo(np.intp).max:  # it would become a negative one
            raise IndexError(f"{name} must be indices; got {array.max()}")
    return asarray(array, np.intp, device=tensor.device).copy()


def _near(name: str, value: Any, tensor: Tensor) -> Array:
    """`value` as an array. Lists and numbers may move to the tensor's device, arrays may not.

    What an op keeps for its vjp is a copy: later changes by its owner do not reach it.
    """
    value = value._data if isinstance(value, Tensor) else value
    if not is_array(value):
        return np.asarray(value)
    if device_of(value).name != tensor.device:
        raise TypeError(
            f"{name}: a tensor lives on {tensor.device} and an array on {device_of(value).name}; "
            "move one of them with .to(device)"
        )
    return value


def _node(
    name: str, values: list[Any], sources: list[Node | Tensor | None], vjp: Any
) -> Node | None:
    """The graph node of one call, or None if no input needs a gradient."""
    needed = [i for i, source in enumerate(sources) if source is not None]
    if not needed:
        return None
    shapes = [values[i].shape for i in needed]
    if callable(vjp):
        count = len(values)

        def pull(g: Array) -> list[Array]:
            shares = vjp(g)
            if not (isinstance(shares, tuple) and len(shares) == count):
                raise TypeError(f"{name}: its vjp must return {count} gradients in a tuple, one "
                                f"for each array; got {type(shares).__name__}")  # fmt: skip
            return [
                _sum_to(name, shares[i], shape) for i, shape in zip(needed, shapes, strict=True)
            ]
    else:
        vjps = [vjp[i] for i in needed]  # the others, and the arrays they hold, are let go

        def pull(g: Array) -> list[Array]:
            return [_sum_to(name, f(g), shape) for f, shape in zip(vjps, shapes, strict=True)]

    return Node(name, [source for source in sources if source is not None], pull)


def _sum_to(name: str, g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: an input used in many places receives the sum of their gradients.

    Raises: RuntimeError if that does not give the input's shape: then the vjp is wrong.
    """
    if not is_array(g):  # NumPy makes numbers of 0-d arrays
        g = asarray(g)
    if g.shape == shape:
        return g
    total, xp = g, device_of(g).xp
    if g.ndim > len(shape):
        total = sum_over(xp, total, tuple(range(g.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and total.shape[i : i + 1] != (1,))
    if ones and total.ndim == len(shape):
        total = sum_over(xp, total, ones, keepdims=True)
    if total.shape != shape:
        raise RuntimeError(
            f"{name}: its vjp gave a gradient of shape {g.shape} for an input of shape {shape}"
        )
    return total


@dispatched
def sum_over(xp: Any, x: Array, axis: Any, *, keepdims: bool = False) -> Array:
    """The sum over an axis or some. Shapes: as NumPy's `sum`."""
    return x.sum(axis=axis, keepdims=keepdims)
