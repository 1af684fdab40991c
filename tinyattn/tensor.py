"""Chapter 1: the tensor, an array that remembers how it was made.

A tensor that an operation returns refers to the operation's node (graph.py). A tensor that you
create yourself is a leaf, and its gradient is stored in `.grad`.

    x = Tensor(3.0, requires_grad=True)
    y = x * x
    y.backward()                # x.grad is now 6.0

- A Tensor has the dtype float32 or float64, and operations keep it. Python numbers and plain arrays
  are converted to the dtype of the Tensor. Two Tensors of different dtypes are an error.
- The array of a plain Tensor never changes: it is a copy of yours, and `.data` is read-only on the
  CPU. An assignment to `x.data` gives x another array. Only a Parameter (nn/module.py) changes in
  place: `w.data -= learning_rate * w.grad`. This increases its version (`changed_in_place`). Then
  backward through a graph with the old values raises an error, since its result would be wrong.
- Only leaves get a gradient. Each `backward` adds to `.grad`, until `zero_grad`. It also frees the
  graph, except with retain_graph=True. Only first derivatives are supported.

manners.py (chapter 6) adds Python's special methods, such as those for printing and copying. Next:
dispatch, the choice between a formula and a kernel (dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tinyattn.backend import Array, asarray, asnumpy, device_of, is_array
from tinyattn.graph import Node, sweep

OPS: dict[str, Callable[..., Any]] = {}
"""Every operation by name. `@op` adds them; operators, tests and documentation look them up."""


def _call(name: str) -> Callable[..., Tensor]:  # by name: the ops are defined in later files
    return lambda x, *args, **options: OPS[name](x, *args, **options)


def _reflected(name: str) -> Callable[[Tensor, Any], Tensor]:  # 2 - x calls x.__rsub__(2)
    return lambda a, b: OPS[name](b, a)


class Tensor:
    """An array of float32 or float64, and its gradient.

    Args:
        data: a number, nested lists or an array; copied. Integers and Python floats become
            float64 unless `dtype` is given.
        requires_grad: whether `backward` computes `.grad`.
        dtype: "float32" or "float64".
        device: "cpu" or "cuda"; default: the device of `data`.
        name: for error messages.
    Raises: TypeError if `data` is not real numbers, or has another dtype, such as float16.
    """

    _data: Array
    _in_place = False  # whether the values may change in place
    _kept: tuple[str, ...] = ()  # attributes of a subclass that a copy preserves
    version: int
    __slots__ = ("__weakref__", "_data", "_grad", "_node", "name", "requires_grad", "version")
    __array_priority__ = 1000  # so that `array + tensor` calls our __radd__ and not NumPy's add

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
        if values is not self._data:  # `w.data -= step` changes the array and assigns it
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
        """The gradient, summed over all calls of `backward`; None if there is none."""
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
                             f"and dtype; got {tuple(g.shape)} and {g.dtype}")  # fmt: skip
        self._grad = g

    def changed_in_place(self) -> None:
        """Increase the version: backward through a graph that used the old values then fails."""
        self.version += 1

    # -- dtype, device, shape, values ---------------------------------------------------------

    xp = property(lambda self: device_of(self._data).xp, doc="The array module: NumPy or CuPy.")
    dtype = property(lambda self: self._data.dtype, doc="NumPy's float32 or float64.")

    @property
    def device(self) -> str:
        """The device of the values: "cpu" or "cuda"."""
        return device_of(self._data).name

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(self._data.shape)

    ndim = property(lambda self: int(self._data.ndim), doc="The number of axes.")
    size = property(lambda self: int(self._data.size), doc="The number of elements.")

    def __len__(self) -> int:
        return len(self._data)

    def describe(self) -> str:
        """Its name and shape, for error messages."""
        return f"{self.name or 'a tensor'} of shape {self.shape}"

    def item(self) -> float:
        """The value of a tensor with one element, as a Python float. It waits for a GPU."""
        return float(asnumpy(self._data).item())

    __float__ = item

    def numpy(self) -> np.ndarray:
        """A copy of the values as a NumPy array on the host."""
        return np.array(asnumpy(self._data))

    # -- gradients, and leaves on another device or of another dtype --------------------------

    def backward(self, cotangent: Any = None, *, retain_graph: bool = False) -> None:
        """Add d(loss)/d(leaf) to `.grad` of every leaf that requires a gradient.

        Args:
            cotangent: d(loss)/d(self), an array of this tensor's shape (PyTorch: `gradient`).
                The default, for a tensor of shape () only, is 1: the tensor is the loss.
            retain_graph: keep the graph, so that backward can be called again.
        Raises: RuntimeError if no leaf requires a gradient, or the graph was freed;
            ValueError if the cotangent's shape is not this tensor's.
        """
        for leaf, gradient in gradients(self, cotangent, retain_graph=retain_graph):
            total = gradient.copy() if leaf.grad is None else leaf.grad + gradient
            leaf.grad = asarray(total, device=leaf.device)  # shape (): NumPy returns a scalar

    def zero_grad(self) -> None:
        """Set `.grad` to None."""
        self.grad = None

    def detach(self) -> Tensor:
        """A leaf with the same values, without the graph."""
        return Tensor(self._data)

    def to(self, device: str) -> Tensor:
        """This tensor if it is on `device`, else a leaf there with the same values.

        Raises: RuntimeError for the result of an op elsewhere: a copy would lose the gradient.
        """
        return self if device == self.device else self._copy("to", device=device)

    def astype(self, dtype: Any) -> Tensor:
        """A leaf with the same values in `dtype`. Raises: RuntimeError for the result of an op."""
        return self._copy("astype", dtype=dtype)

    def _copy(self, where: str, **options: Any) -> Tensor:
        if self._node is not None:
            raise RuntimeError(f"{where}: the gradient would not flow through; detach() first")
        return Tensor(self._data, requires_grad=self.requires_grad, name=self.name, **options)

    # -- operators and methods: each calls the op of that name ----------------------------------

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

    T = property(transpose, doc="All axes reversed; swapaxes(-1, -2) transposes stacked matrices.")


def _floating(values: Array) -> Array:
    """A copy of `values`; integers and booleans become float64, float32 and float64 stay."""
    if values.dtype.kind in "iub":
        return values.astype(np.float64)
    if values.dtype not in (np.float32, np.float64):
        raise TypeError(f"a Tensor holds float32 or float64; got {values.dtype}; convert it first")
    return values.copy()


def _frozen(values: Array) -> Array:
    """Make values that a vjp needs read-only. CuPy cannot: do not write to a CuPy array."""
    if isinstance(values, np.ndarray):
        values.setflags(write=False)
    return values


def result(data: Array, node: Node | None) -> Tensor:
    """The Tensor that an op returns. It refers to `node`, and holds `data` without a copy."""
    tensor = Tensor.__new__(Tensor)
    tensor._data, tensor._node, tensor._grad = _frozen(data), node, None
    tensor.requires_grad, tensor.name, tensor.version = node is not None, "", 0
    return tensor


def gradients(
    output: Tensor, cotangent: Any = None, *, retain_graph: bool = False
) -> list[tuple[Tensor, Array]]:
    """Each leaf behind `output` that requires a gradient, with this gradient, d(loss)/d(leaf).

    Arguments and errors are those of `Tensor.backward`, but nothing is added to `.grad`.
    The arrays may share memory with one another; copy before writing to them.
    """
    if not output.requires_grad:
        raise RuntimeError("backward: no leaf behind this tensor requires a gradient")
    if cotangent is None and output.shape != ():
        raise ValueError(
            f"backward: a tensor of shape {output.shape} needs a cotangent (the gradient of the "
            "loss with respect to it) of that shape; only a tensor of shape () can omit it"
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
