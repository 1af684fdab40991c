"""Chapter 8, continued: all parameters in one long array.

A model has dozens of parameters; an optimiser does the same to each number in all of them. So the
trainer lets them all live in one flat array, as views, with their gradients in a second one: then
clipping, decay and update are a few operations on long arrays. Next: a matrix and its sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinyattn.backend import Array, array_module
from tinyattn.dispatch import dispatched
from tinyattn.nn import Parameter
from tinyattn.tensor import Tensor


class FlatParameters:
    """Parameters moved into one array `values`, their gradients into another, `grads`.

    Each parameter's data becomes a read-only view of `values`; who writes there calls `changed`.
    """

    def __init__(self, named: Iterable[tuple[str, Parameter]]) -> None:
        self.named = dict(named)
        if not self.named:
            raise ValueError("FlatParameters: the model has no parameters")
        first = next(iter(self.named.values()))
        if any(p.dtype != first.dtype for p in self.named.values()):
            raise TypeError("FlatParameters: the parameters must share one precision")
        self.xp = first.xp
        size = sum(p.size for p in self.named.values())
        self.values = self.xp.empty(size, dtype=first.dtype)
        self.grads = self.xp.zeros(size, dtype=first.dtype)
        for name, view in self.views(self.values).items():
            view[...] = self.named[name].data
            self.named[name].share(view)

    def views(self, flat: Array) -> dict[str, Array]:
        """The pieces of an array laid out like `values`, by parameter name, in their shapes."""
        pieces, start = {}, 0
        for name, parameter in self.named.items():
            pieces[name] = flat[start : start + parameter.size].reshape(parameter.shape)
            start += parameter.size
        return pieces

    def collector(self) -> dict[int, Array]:
        """The pieces of `grads` by the identity of their parameter, for adding gradients up."""
        pieces = self.views(self.grads)
        return {id(parameter): pieces[name] for name, parameter in self.named.items()}

    def collect(self) -> None:
        """Move the gradients that `backward` left in the parameters into `grads`.

        A parameter without one gets 0; if none has one, `grads` stays as it is.
        """
        if all(parameter.grad is None for parameter in self.named.values()):
            return
        for name, piece in self.views(self.grads).items():
            gradient = self.named[name].grad
            piece[...] = 0 if gradient is None else gradient
            self.named[name].zero_grad()

    def finite(self) -> bool:
        """Whether every parameter is a finite number."""
        return bool(self.xp.isfinite(self.values).all())

    def changed(self) -> None:
        """Tell every parameter that its values were written to."""
        for parameter in self.named.values():
            parameter.changed_in_place()


def add_gradients(collector: dict[int, Array], gradients: list[tuple[Tensor, Array]]) -> None:
    """Add what `tensor.gradients` returned to the pieces of a flat array."""
    if gradients:
        sums, values = [collector[id(leaf)] for leaf, _ in gradients], [g for _, g in gradients]
        xp = array_module(sums[0])
        add_each(xp, sums, values)


@dispatched
def add_each(xp: Any, sums: list[Array], values: list[Array]) -> None:
    """Add to each array another one of its shape."""
    for total, value in zip(sums, values, strict=True):
        total += value
