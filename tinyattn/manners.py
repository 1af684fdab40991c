"""Chapter 6: Python's special methods of a tensor, such as comparison, printing and copying.

A reader can skip this: it changes no value and no gradient. The class `Tensor` gets these methods
here, so that chapter 1 has only what a gradient needs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinyattn.backend import Array, asnumpy
from tinyattn.calls import plain_number
from tinyattn.tensor import Tensor


def _compare(compare: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Array]:
    """Comparisons have no gradient: they return a plain boolean array."""
    return lambda a, b: compare(a._data, b._data if isinstance(b, Tensor) else plain_number(b))


class _Manners(Tensor):
    """The methods that `Tensor` gets."""

    __slots__ = ()
    __hash__ = object.__hash__  # == compares elements; a dict finds a Tensor by identity

    __lt__, __le__ = map(_compare, (operator.lt, operator.le))
    __gt__, __ge__ = map(_compare, (operator.gt, operator.ge))
    __eq__, __ne__ = _compare(operator.eq), _compare(operator.ne)  # elementwise, as in NumPy

    def __repr__(self) -> str:
        values = np.array2string(asnumpy(self._data), precision=4, threshold=20, prefix="Tensor(")
        origin = f", made by {self._node.name}" if self._node else ""
        return f"Tensor({values}, {self.dtype}{origin}{', requires_grad' * self.requires_grad})"

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __int__(self) -> int:
        return int(self.item())

    def __round__(self, digits: int | None = None) -> float:
        return round(self.item(), digits)

    def __format__(self, spec: str) -> str:
        """A tensor with one element as a number, `f"{loss:.3f}"`; without a format, as `str`."""
        if spec and self.size != 1:
            raise TypeError(f"format {spec!r}: only a tensor with one element can be written as a "
                            f"number; got shape {self.shape}")  # fmt: skip
        return format(self.item() if spec else str(self), spec)

    def __bool__(self) -> bool:
        return bool(asnumpy(self._data))

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError(
            "a NumPy function would lose the gradient of a Tensor x: use one of tinyattn.ops, "
            "such as ops.exp(x) for np.exp(x), or x.numpy() for the values without a gradient"
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "a Tensor cannot be assigned to in place: make a new one with where(), scatter_add() "
            "or concatenate(), or assign a whole array to .data of a leaf"
        )

    def __reduce__(self) -> Any:
        """Copies and pickles are leaves with the same values and their own memory."""
        kept = {name: getattr(self, name) for name in self._kept}
        return _leaf, (type(self), self._data, self.requires_grad, self.name, self.grad, kept)


def _leaf(
    kind: type[Tensor], data: Array, requires: bool, name: str, grad: Any, kept: dict[str, Any]
) -> Tensor:
    """The leaf whose parts `Tensor.__reduce__` returned."""
    leaf = kind(data, name=name, **kept)
    leaf.requires_grad, leaf.grad = requires, None if grad is None else grad.copy()
    return leaf


for _name, _method in vars(_Manners).items():
    if callable(_method):
        setattr(Tensor, _name, _method)
