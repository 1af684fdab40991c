"""Chapter 1: operations, or how a function of arrays becomes a function of tensors.

Every operation is one plain function. It receives the array module and arrays, and returns the
value and the gradient functions from the derivation on paper:

    @op
    def multiply(xp, a, b):
        return a * b, (lambda g: g * b, lambda g: g * a)

The second half of the return value is the *vjp*: for each input a function from the gradient g of
the result to the gradient of the input. `@op` adds the steps that all operations share. It chooses
formula or kernel, creates the node, and adds the operation to the table `OPS`. In backward it sums
the gradient of a broadcast input, so that it has the input's shape. It skips gradients that are not
needed, and does not keep arrays that only they need. Next: softmax (ops/softmax.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast, overload

from tinyattn.backend import Array, asarray, device_of, is_array
from tinyattn.dispatch import FORMULAS, Function, choose, dispatched
from tinyattn.graph import Node, recording
from tinyattn.tensor import OPS, Tensor, result

Index = Any  # annotates a parameter that holds integers, which have no gradient
Mask = Any  # annotates a parameter that holds booleans, which have no gradient
Source = Node | Tensor | None
"""The target of an argument's gradient: a node, a leaf, or None if it needs no gradient."""

plain: Function = cast(Any, None)
"""Converts the arguments of a call: returns the array and the `Source` of each. At import, calls.py
(chapter 6) replaces this None by its function, so that this file imports no later chapter."""


@overload  # for type checkers only: `@op` and `@op(check=...)` have different types
def op(function: Function) -> Callable[..., Tensor]: ...
@overload
def op(*, check: Function) -> Callable[[Function], Callable[..., Tensor]]: ...
def op(function: Function | None = None, *, check: Function | None = None) -> Any:
    """Turn `function(xp, *arrays, **options) -> (value, vjp)` into an operation on Tensors.

    Positional parameters are arrays. An array whose default is None may be omitted, and an array
    annotated `Index` or `Mask` has no gradient. Keyword-only parameters are options. `vjp` is a
    tuple with one function of g for each array; `@op` calls only the functions that are needed. If
    the gradients share work, `vjp` is one function that returns a tuple of all gradients.

    Args: check: called first, with the same arguments; raises an error if they are invalid.
    """
    if function is None:
        return functools.partial(op, check=check)
    name = function.__name__
    FORMULAS.setdefault(name, function)  # a later op of the same name has no kernels

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Tensor:
        values, sources = plain(function, args, options)
        device = device_of(*[v for v in values if hasattr(v, "shape")])
        try:
            arrays = device.xp, *values
            if check is not None:
                check(*arrays, **options)
            run, _ = choose(function, device.name, arrays, options)
            value, vjp = _pair(run(*arrays, **options), len(values))
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            if str(error).startswith(f"{name}:"):
                raise
            shapes = " and ".join(str(getattr(v, "shape", v)) for v in values if v is not None)
            if not isinstance(error, AttributeError):
                raise type(error)(f"{name}: {error}; got {shapes}") from error
            if all(hasattr(v, "shape") for v in values):
                raise
            raise TypeError(f"{name}: needs arrays; got {shapes}") from error
        value = value if is_array(value) else asarray(value)  # shape (): NumPy returns a scalar
        return result(value, _node(name, values, sources, vjp) if recording() else None)

    OPS[name] = call
    return call


def _pair(made: Any, count: int) -> tuple[Any, Any]:
    """The value and the vjp that a function returned, checked to fit `count` arrays."""
    vjp = made[1] if isinstance(made, tuple) and len(made) == 2 else None
    if callable(vjp) or (isinstance(vjp, tuple) and len(vjp) == count):
        return made[0], vjp
    raise TypeError(
        f"an op returns its value and its vjp: a tuple of {count} functions of g, one for each "
        f"array, or one function that returns {count} gradients in a tuple; got {made!r:.200}"
    )


def _node(name: str, values: list[Any], sources: list[Source], vjp: Any) -> Node | None:
    """The graph node of one call, or None if no input needs a gradient."""
    needed = [i for i, source in enumerate(sources) if source is not None]
    if not needed:
        return None
    count, shapes = len(values), [values[i].shape for i in needed]
    if callable(vjp):

        def gradients(g: Array) -> Any:
            made = vjp(g)
            if not (isinstance(made, tuple) and len(made) == count):
                raise TypeError(f"{name}: its vjp must return {count} gradients in a tuple, one "
                                f"for each array; got {type(made).__name__}")  # fmt: skip
            return (made[i] for i in needed)
    else:
        vjps = [vjp[i] for i in needed]  # the other functions, and their arrays, are not kept

        def gradients(g: Array) -> Any:
            return (f(g) for f in vjps)

    def node_vjp(g: Array) -> list[Array]:
        return [_sum_to(name, dx, s) for dx, s in zip(gradients(g), shapes, strict=True)]

    return Node(name, [source for source in sources if source is not None], node_vjp)


def _sum_to(name: str, g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: an input used in many places receives the sum of their gradients.

    Raises: RuntimeError if the sum does not have the input's shape, because the vjp is wrong.
    """
    total = g = g if is_array(g) else asarray(g)  # shape (): NumPy returns a scalar
    if g.shape == shape:
        return g
    xp = device_of(g).xp
    if g.ndim > len(shape):
        total = sum_over(xp, total, tuple(range(g.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and total.shape[i : i + 1] != (1,))
    if ones and total.ndim == len(shape):  # a wrong g may have fewer axes, hence the slice above
        total = sum_over(xp, total, ones, keepdims=True)
    if total.shape != shape:
        raise RuntimeError(
            f"{name}: its vjp gave a gradient of shape {g.shape} for an input of shape {shape}"
        )
    return total


@dispatched
def sum_over(xp: Any, x: Array, axis: Any, *, keepdims: bool = False) -> Array:
    """The sum over one or several axes, for all formulas. Shapes: as NumPy's `sum`."""
    return x.sum(axis=axis, keepdims=keepdims)
