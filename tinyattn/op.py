"""Chapter 1: how a function of arrays becomes an operation on tensors.

Every operation of the engine is one plain function: it receives the array module and arrays,
and returns its value and beside it what the derivation on paper gives for its gradient:

    @op
    def multiply(xp, a, b):
        return a * b, (lambda g: g * b, lambda g: g * a)

The second half of the return value is the *vjp*: for each input, how its gradient follows from the
gradient g of the result. What is the same for all of them happens here, once: who computes is
chosen, the result gets its node, gradients of broadcast inputs are summed back to their shape,
gradients that nobody needs are not computed (and the arrays for them not kept alive), and the
function enters the table `OPS`. Next: scores into weights (ops/softmax.py).
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
Mask = Any  # the same for booleans
Source = Node | Tensor | None
"""Where the gradient of an argument goes: a node, a leaf, or nowhere."""

plain: Function = cast(Any, None)
"""What users pass, made plain: the array of each argument, and where its gradient goes. It is told
in calls.py, which puts it here."""


@overload
def op(function: Function) -> Callable[..., Tensor]: ...
@overload
def op(*, check: Function) -> Callable[[Function], Callable[..., Tensor]]: ...
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
    FORMULAS.setdefault(name, function)  # of our own, which alone may have kernels

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
        value = value if is_array(value) else asarray(value)  # NumPy makes numbers of 0-d arrays
        return result(value, _node(name, values, sources, vjp) if recording() else None)

    OPS[name] = call
    return call


def _pair(made: Any, count: int) -> tuple[Any, Any]:
    """What a function gave, if it is a value and the gradients of `count` arrays."""
    vjp = made[1] if isinstance(made, tuple) and len(made) == 2 else None
    if callable(vjp) or (isinstance(vjp, tuple) and len(vjp) == count):
        return made[0], vjp
    raise TypeError(
        f"an op returns its value and, beside it, its vjp: a tuple of {count} functions of g, one "
        f"for each array, or one function that returns so many gradients; got {made!r:.200}"
    )


def _node(name: str, values: list[Any], sources: list[Source], vjp: Any) -> Node | None:
    """The graph node of one call, or None if no input needs a gradient."""
    needed = [i for i, source in enumerate(sources) if source is not None]
    if not needed:
        return None
    count, shapes = len(values), [values[i].shape for i in needed]
    if callable(vjp):

        def shares(g: Array) -> Any:
            made = vjp(g)
            if not (isinstance(made, tuple) and len(made) == count):
                raise TypeError(f"{name}: its vjp must return {count} gradients in a tuple, one "
                                f"for each array; got {type(made).__name__}")  # fmt: skip
            return (made[i] for i in needed)
    else:
        vjps = [vjp[i] for i in needed]  # the others, and the arrays they hold, are let go

        def shares(g: Array) -> Any:
            return (f(g) for f in vjps)

    def pull(g: Array) -> list[Array]:
        return [_sum_to(name, share, s) for share, s in zip(shares(g), shapes, strict=True)]

    return Node(name, [source for source in sources if source is not None], pull)


def _sum_to(name: str, g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: an input used in many places receives the sum of their gradients.

    Raises: RuntimeError if that does not give the input's shape: then the vjp is wrong.
    """
    total = g = g if is_array(g) else asarray(g)  # NumPy makes numbers of 0-d arrays
    if g.shape == shape:
        return g
    xp = device_of(g).xp
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
    """The sum over an axis or some, also in other formulas. Shapes: as NumPy's `sum`."""
    return x.sum(axis=axis, keepdims=keepdims)
