"""Chapter 1: a tensor is an array that remembers how it was made.

A tensor that results from an operation carries the operation's node (graph.py); one that you make
yourself is a leaf, and a place for its gradient.

    x = Tensor(3.0, requires_grad=True)
    y = x * x
    y.backward()                # x.grad is now 6.0

- A Tensor holds float32 or float64, and an operation never changes which. Numbers and plain
  arrays that meet a Tensor adopt its precision; two Tensors of different precision are an error.
- The values of a Tensor do not change after they have been used: the array you pass in is
  copied, and `.data` is read-only on the CPU. Assign a new array to `x.data` to change x. What is
  learned, a Parameter (nn/module.py), changes in place: `w.data -= rate * w.grad`. That is noticed
  (`changed_in_place`), and a backward pass through the old values is then an error rather than a
  wrong gradient.
- Gradients land on leaves only (tensors made by you, not by an operation), and add up until
  `zero_grad`. `backward` frees the graph as it goes, unless told to keep it. There are first
  derivatives only.

What Python's own functions do is told later (manners.py). Next: who computes (dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tinyattn.backend import Array, asarray, asnumpy, device_of, is_array
from tinyattn.graph import Node, sweep

OPS: dict[str, Callable[..., Any]] = {}
"""Every operation by name. `@op` enters them; operators, tests and documentation look them up."""


def _call(name: str) -> Callable[..., Tensor]:
    return lambda x, *args, **options: OPS[name](x, *args, **options)


def _reflected(name: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda a, b: OPS[name](b, a)


class Tensor:
    """An array of float32 or float64 with a place for its gradient.

    Args:
        data: numbers, nested lists or an array; copied. Integers and Python floats become float64,
            as in NumPy, unless `dtype` says otherwise.
        requires_grad: whether `backward` should leave a gradient in `.grad`.
        dtype: "float32" or "float64".
        device: "cpu" or "cuda"; by default where `data` lives.
    Raises: TypeError if `data` is not made of real numbers or has another precision.
    """

    _data: Array
    _in_place = False  # whether the values may change in place
    _kept: tuple[str, ...] = ()  # what a subclass adds, and a copy keeps
    version: int
    __slots__ = ("__weakref__", "_data", "_grad", "_node", "name", "requires_grad", "version")
    __array_priority__ = 1000  # so that `array + tensor` asks our __radd__ and not NumPy's add

    def __init__(
        self, data: Any, *, requires_grad: bool = False, dtype: Any = None,
        device: str | None = None, name: str = "",
    ) -> None:  # fmt: skip
        values = data._data if isinstance(data, Tensor) else data
        on = device or (device_of(values).name if is_array(values) else "cpu")
        values = _floating(asarray(values, dtype, device=on))
        self._data = values if self._in_place else _frozen(values)
        self._node: Node | None = None
        self._grad: Array | None = None
        self.requires_grad, self.name, self.version = requires_grad, name, 0

    @property
    def data(self) -> Array:
        """The values: read-only on the CPU; assign a whole array to change a leaf."""
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        if self._node is not None:
            raise RuntimeError("data: only a leaf can be assigned; this is the result of an op")
        if values is not self._data:  # which `x.data -= step` has changed, and assigns
            values = values._data if isinstance(values, Tensor) else values
            values = _floating(asarray(values, self.dtype, device=self.device))
            if values.shape != self.shape:
                raise ValueError(
                    f"data: {self.describe()} cannot take values of shape {values.shape}"
                )
            if not self._in_place:
                self._data = _frozen(values)
                return
            self._data[...] = values
        self.changed_in_place()

    @property
    def grad(self) -> Array | None:
        """The gradient that `backward` has added up here; None if there is none."""
        return self._grad

    @grad.setter
    def grad(self, values: Any) -> None:
        g = values._data if isinstance(values, Tensor) else values
        if g is not None and not (is_array(g) and device_of(g).name == self.device):
            raise TypeError(
                f"grad: must be an array on {self.device}, or None; got {type(g).__name__}"
            )
        if g is not None and (tuple(g.shape), g.dtype) != (self.shape, self.dtype):
            raise ValueError(f"grad: {self.describe()} and {self.dtype} needs one of that shape "
                             f"and precision; got {tuple(g.shape)} and {g.dtype}")  # fmt: skip
        self._grad = g

    def changed_in_place(self) -> None:
        """Somebody has written to the values: graphs that used the old ones are void."""
        self.version += 1

    # -- what it is ---------------------------------------------------------------------------

    xp = property(lambda self: device_of(self._data).xp, doc="The array module: NumPy or CuPy.")
    dtype = property(lambda self: self._data.dtype, doc="The precision: float32 or float64.")

    @property
    def device(self) -> str:
        """Where the values live: "cpu" or "cuda"."""
        return device_of(self._data).name

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(self._data.shape)

    ndim = property(lambda self: int(self._data.ndim), doc="How many axes.")
    size = property(lambda self: int(self._data.size), doc="How many numbers.")

    def __len__(self) -> int:
        return len(self._data)

    def describe(self) -> str:
        """Its name and shape, for error messages."""
        return f"{self.name or 'a tensor'} of shape {self.shape}"

    def item(self) -> float:
        """The value of a tensor with one element, as a Python float (waits for a GPU)."""
        return float(asnumpy(self._data).item())

    __float__ = item

    def numpy(self) -> np.ndarray:
        """The values on the host, as an array of its own."""
        return np.array(asnumpy(self._data))

    # -- gradients, and leaves of another kind ------------------------------------------------

    def backward(self, cotangent: Any = None, *, retain_graph: bool = False) -> None:
        """Add d(self · cotangent)/d(leaf) to `.grad` of every leaf that requires it.

        Args:
            cotangent: the gradient of the loss with respect to this tensor, of its shape; may be
                left out when this tensor is a single number, and is then 1.
            retain_graph: keep the graph, so that backward can be called again.
        Raises: RuntimeError if there is nothing to differentiate, or the graph was freed;
            ValueError if the cotangent's shape is not this tensor's.
        """
        for leaf, gradient in gradients(self, cotangent, retain_graph=retain_graph):
            total = gradient.copy() if leaf.grad is None else leaf.grad + gradient
            leaf.grad = asarray(total, device=leaf.device)  # NumPy makes numbers of 0-d arrays

    def zero_grad(self) -> None:
        """Forget the gradient, so that the next one starts from nothing."""
        self.grad = None

    def detach(self) -> Tensor:
        """The same values with no memory of how they were made."""
        return Tensor(self._data)

    def to(self, device: str) -> Tensor:
        """This tensor if it lives on `device`, else a leaf there with the same values.

        Raises: RuntimeError if the result of an op would have to move.
        """
        return self if device == self.device else self._copy("to", device=device)

    def astype(self, dtype: Any) -> Tensor:
        """A leaf with the same values in `dtype`. Raises: RuntimeError for the result of an op."""
        return self._copy("astype", dtype=dtype)

    def _copy(self, where: str, **options: Any) -> Tensor:
        if self._node is not None:
            raise RuntimeError(f"{where}: the gradient would not flow through; detach() first")
        return Tensor(self._data, requires_grad=self.requires_grad, name=self.name, **options)

    # -- operators and methods that are ops: one aligned list -----------------------------------

    __add__, __radd__ = _call("add"), _reflected("add")
    __sub__, __rsub__ = _call("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _call("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _call("divide"), _reflected("divide")
    __pow__, __rpow__ = _call("power"), _reflected("power")
    __matmul__, __rmatmul__ = _call("matmul"), _reflected("matmul")
    __neg__, __abs__, __getitem__ = _call("negative"), _call("absolute"), _call("getitem")

    exp, log, sqrt, tanh, sigmoid = map(_call, ("exp", "log", "sqrt", "tanh", "sigmoid"))
    erf, abs, clip = map(_call, ("erf", "absolute", "clip"))
    sum, mean, max, min = map(_call, ("sum", "mean", "max", "min"))
    var, std, norm = map(_call, ("var", "std", "norm"))
    cumsum, logsumexp, log_softmax = map(_call, ("cumsum", "logsumexp", "log_softmax"))
    softmax = lambda x, axis=-1: OPS["softmax"](x, axis=axis)  # noqa: E731
    reshape, transpose, swapaxes = map(_call, ("reshape", "transpose", "swapaxes"))
    squeeze, expand_dims, flip = map(_call, ("squeeze", "expand_dims", "flip"))
    broadcast_to, take, gather = map(_call, ("broadcast_to", "take", "gather"))

    T = property(transpose, doc="All axes reversed; for stacks of matrices: swapaxes(-1, -2).")


def _floating(values: Array) -> Array:
    """A copy of `values` as float32 or float64, which they keep if they have it already."""
    if values.dtype.kind in "iub":
        return values.astype(np.float64)
    if values.dtype not in (np.float32, np.float64):
        raise TypeError(f"a Tensor holds float32 or float64; got {values.dtype}; convert it first")
    return values.copy()


def _frozen(values: Array) -> Array:
    """Guard the values that a vjp relies on. CuPy has no such guard: there it is a promise."""
    if isinstance(values, np.ndarray):
        values.setflags(write=False)
    return values


def result(data: Array, node: Node | None) -> Tensor:
    """The Tensor that an op returns: `data` itself, not a copy, made by `node`."""
    tensor = Tensor.__new__(Tensor)
    tensor._data, tensor._node, tensor._grad = _frozen(data), node, None
    tensor.requires_grad, tensor.name, tensor.version = node is not None, "", 0
    return tensor


def gradients(
    output: Tensor, cotangent: Any = None, *, retain_graph: bool = False
) -> list[tuple[Tensor, Array]]:
    """Each leaf behind `output` that requires a gradient, with d(output · cotangent)/d(leaf).

    This is `Tensor.backward` without adding up into `.grad`, with the same arguments and errors.
    The arrays may share memory with one another; copy before writing to them.
    """
    if not output.requires_grad:
        raise RuntimeError("backward: no leaf behind this tensor requires a gradient")
    if cotangent is None and output.shape != ():
        raise ValueError(
            f"backward: a tensor of shape {output.shape} needs a cotangent of that shape; "
            "only a single number can go without"
        )
    if cotangent is None:
        cotangent = output.xp.ones_like(output._data)
    given = cotangent._data if isinstance(cotangent, Tensor) else cotangent
    g = asarray(given, output.dtype, device=output.device)
    if tuple(g.shape) != output.shape:
        raise ValueError(
            f"backward: the cotangent must have the tensor's shape {output.shape}; "
            f"got {tuple(g.shape)}"
        )
    reached = cast(
        "list[tuple[Tensor, Array]]", sweep(output._node or output, g, keep=retain_graph)
    )
    return [(leaf, asarray(gradient, device=leaf.device)) for leaf, gradient in reached]
