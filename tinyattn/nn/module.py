"""Chapter 2: parameters and the modules that own them.

Operations are functions; what is learned needs an owner. A Module is an ordinary
object whose attributes are Parameters, other Modules, or lists of them. Its parameters are found
by walking the attributes in the order in which they were set, and are named by the path that
leads to them: `blocks.0.attention.query.weight`. What an optimiser wants to know of a parameter,
it says itself: its *role*.

A module has no training mode. A call that is given `noise` trains, and drops; a call without it
does not. Next: a linear layer, and one that drops (nn/linear.py).
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
    MIXING = "a matrix between positions"
    OUTPUT = "a matrix that makes the output"
    TABLE = "rows that are looked up or added, and whatever says nothing else"
    GAIN = "factors"
    BIAS = "terms"


class Parameter(Tensor):
    """A Tensor that is learned: a leaf that requires a gradient, and changes in place.

    `w.data -= rate * w.grad` is a step downhill. A graph that used the old values is void then. On
    the CPU `w.data` can be written to; assign it afterwards, as `-=` does, or nobody knows.

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
        """Let the values live in `storage`, an array of their shape that others may write to."""
        self._data = storage

    def to(self, device: str) -> Parameter:
        """This parameter if it lives on `device`, else a copy there."""
        return self if device == self.device else self.like(self.data, device)

    def like(self, data: Any, device: str | None = None) -> Parameter:
        """A parameter with the same role and name, and other values."""
        return Parameter(data, role=self.role, device=device, name=self.name)


class Module:
    """An owner of parameters."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path; one that is owned twice goes by its first path."""
        seen: set[int] = set()
        for name, _, _, parameter in self._walk(prefix):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> list[Parameter]:
        """Every parameter once, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_count(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.size for parameter in self.parameters())

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def to(self, device: str) -> Module:
        """Move every parameter to `device`, in place; returns the module."""
        return self._replace(lambda parameter: parameter.to(device))

    def astype(self, dtype: Any) -> Module:
        """Make every parameter "float32" or "float64", in place; returns the module."""
        return self._replace(lambda parameter: parameter.like(parameter.data.astype(dtype)))

    def _replace(self, change: Callable[[Parameter], Parameter]) -> Module:
        changed: dict[int, Parameter] = {}
        for _, owner, key, parameter in list(self._walk()):
            owner[key] = changed.setdefault(id(parameter), change(parameter))
        return self

    def state(self) -> dict[str, np.ndarray]:
        """A copy of every parameter on the host, by name."""
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Take the values of every parameter from `state`.

        Raises: ValueError that lists every name that is missing or unknown and every shape or
            precision that differs; nothing is changed then.
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
        copies = {name: state[name].copy() for name in own}  # they may be views of our own
        for name, parameter in own.items():
            parameter.data = copies[name]

    def _walk(self, prefix: str = "") -> Iterator[tuple[str, Any, Any, Parameter]]:
        """Each path to a parameter, and the place that holds it: a dictionary or list, and a key.

        Raises: TypeError for parameters or modules in a tuple, set, dictionary or nested list,
            where they would be overlooked.
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
