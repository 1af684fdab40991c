"""Chapter 2: parameters, and modules that own them.

Operations are functions and store nothing. A Module stores parameters, which are learned. It is an
ordinary object whose attributes are Parameters, other Modules, or lists of them. Its parameters are
found by a walk through the attributes, in the order in which they were set. Their names are the
paths to them: `layers.0.attention.query.weight`. Each parameter has a *role*, such as Role.BIAS.
An optimizer may treat roles differently (training/optimizers.py).

There is no training mode. A call with a `dropout_rng` applies dropout, a call without it does not.
Next: the modules Linear and Dropout (nn/linear_layer.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.tensor import Tensor


class Role(Enum):
    """What a parameter does in a model."""

    HIDDEN = "a matrix between hidden layers"
    MIXING = "a matrix that mixes positions"
    OUTPUT = "a matrix that computes the output"
    TABLE = "rows that are looked up or added, such as embeddings; the default"
    GAIN = "a factor for each element"
    BIAS = "a term that is added to each element"


class Parameter(Tensor):
    """A Tensor that is learned: a leaf that requires a gradient and can change in place.

    `w.data -= learning_rate * w.grad` is a step of gradient descent. Graphs that used the old
    values are then invalid. After `w.data[0] = 1` (on the CPU), call `w.changed_in_place()` too.

        >>> w = Parameter([3.0, 4.0])
        >>> (w * w).sum().backward()
        >>> w.data -= 0.25 * w.grad
        >>> w
        Tensor([1.5 2. ], float64, requires_grad)
    """

    __slots__ = ("role",)
    _in_place, _kept = True, ("role",)

    def __init__(
        self, data: Any, *, role: Role = Role.TABLE, device: str | None = None, name: str = ""
    ) -> None:
        super().__init__(data, requires_grad=True, device=device, name=name)
        self.role = role

    def share(self, storage: Array) -> None:
        """Make `storage`, for example part of a larger array, the array of the values; no copy."""
        self._data = storage

    def to(self, device: str) -> Parameter:
        """This parameter if it is on `device`, else a copy there."""
        return self if device == self.device else self.like(self.data, device)

    def like(self, data: Any, device: str | None = None) -> Parameter:
        """A new parameter with the same role and name, and the values `data`."""
        return Parameter(data, role=self.role, device=device, name=self.name)


class Module:
    """The base class of layers and models, which own parameters (PyTorch: nn.Module)."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path; if two modules share it, with its first path."""
        seen: set[int] = set()
        for name, _, _, parameter in self._walk(prefix):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> list[Parameter]:
        """Every parameter once, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_count(self) -> int:
        """The number of elements of all parameters."""
        return sum(parameter.size for parameter in self.parameters())

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to None."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def to(self, device: str) -> Module:
        """Move every parameter to `device`, in place; returns the module."""
        return self._replace(lambda parameter: parameter.to(device))

    def astype(self, dtype: Any) -> Module:
        """Convert every parameter to "float32" or "float64", in place; returns the module."""
        return self._replace(lambda parameter: parameter.like(parameter.data.astype(dtype)))

    def _replace(self, change: Callable[[Parameter], Parameter]) -> Module:
        changed: dict[int, Parameter] = {}
        for _, owner, key, parameter in list(self._walk()):
            owner[key] = changed.setdefault(id(parameter), change(parameter))
        return self

    def state(self) -> dict[str, np.ndarray]:
        """A copy of every parameter on the host, by name (PyTorch: state_dict)."""
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Set the values of every parameter from `state` (PyTorch: load_state_dict).

        Raises: ValueError that lists every missing or unknown name and every wrong shape or
            dtype. In that case nothing is changed.
        """
        own = dict(self.named_parameters())
        wrong = [f"{name} is missing" for name in own if name not in state]
        wrong += [f"{name} is not a parameter here" for name in state if name not in own]
        for name in own:
            if name in state:
                got, want = state[name], own[name]
                if got.shape != want.shape:
                    wrong.append(f"{name} should have shape {want.shape}, has {got.shape}")
                if got.dtype != want.dtype:
                    wrong.append(f"{name} should be {want.dtype}, is {got.dtype}")
        if wrong:
            raise ValueError("load_state: " + "; ".join(wrong))
        copies = {name: state[name].copy() for name in own}  # `state` may have views of parameters
        for name, parameter in own.items():
            parameter.data = copies[name]

    def _walk(self, prefix: str = "") -> Iterator[tuple[str, Any, Any, Parameter]]:
        """Each parameter's path, the dictionary or list that has it, its key there, and itself.

        Raises: TypeError for parameters or modules in a tuple, set, dictionary or nested list,
            where the walk would not find them.
        """
        for name, value in vars(self).items():
            places: list[tuple[str, Any, Any]] = [(name, vars(self), name)]
            if isinstance(value, list):
                places = [(f"{name}.{i}", value, i) for i in range(len(value))]
            for path, owner, key in places:
                if _hides(owner[key]):
                    raise TypeError(
                        f"{type(self).__name__}.{path}: keep parameters and modules in a list, "
                        f"not in a {type(owner[key]).__name__}{' in a list' * (owner is value)}"
                    )
                if isinstance(owner[key], Parameter):
                    yield prefix + path, owner, key, owner[key]
                elif isinstance(owner[key], Module):
                    yield from owner[key]._walk(f"{prefix}{path}.")


def _hides(value: Any) -> bool:
    """Whether `value` is a container with a parameter or module somewhere inside."""
    if not isinstance(value, (list, tuple, set, frozenset, dict)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, (Parameter, Module)) or _hides(item) for item in items)
