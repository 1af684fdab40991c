"""Wing, exercise: small computations, on which backpropagation is tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.tensor import Tensor


@dataclass(frozen=True)
class SmallGraph:
    """Sums and products of two leaves a and b, and of earlier results.

    Args:
        steps: each is "+" or "*" with the indices of its inputs: 0 is a, 1 is b, 2 the first
            result, and so on.
        a: the value of this leaf.
        b: the value of the other.
    """

    steps: tuple[tuple[str, int, int], ...]
    a: float
    b: float

    def compute(self) -> tuple[Tensor, Tensor, Tensor]:
        """New leaves a and b, and the last result. Shapes: (1,) each"""
        tensors = [Tensor([x], requires_grad=True) for x in (self.a, self.b)]
        for sign, i, j in self.steps:
            compute = ops.add if sign == "+" else ops.multiply
            tensors.append(compute(tensors[i], tensors[j]))
        return tensors[0], tensors[1], tensors[-1]

    def gradients(self, sweep: Any, cotangent: np.ndarray, keep: bool) -> dict[str, np.ndarray]:
        """What `sweep` finds for the leaves that the last result depends on, by their names."""
        a, b, y = self.compute()
        names = {id(a): "dL/da", id(b): "dL/db"}
        found = sweep(y._node or y, cotangent, keep=keep)
        if found is None:
            raise TypeError("the function returned None: does it end with `return`?")
        return {names.get(id(leaf), "dL/d(a node)"): g for leaf, g in found}

    def __str__(self) -> str:
        names = ["a", "b", *(f"y{i}" for i, _ in enumerate(self.steps, start=1))]
        made = [f"{names[i]} {sign} {names[j]}" for sign, i, j in self.steps]
        given = [f"a = {self.a:g}", f"b = {self.b:g}"]
        return "; ".join(given + [f"{n} = {m}" for n, m in zip(names[2:], made, strict=True)])
