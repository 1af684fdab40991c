"""Chapter 1: the computation graph, or how a gradient finds its way back.

An operation computes y from x. Its *vjp* (vector-Jacobian product) takes dL/dy, the gradient of the
loss L with respect to y, and returns dL/dx. It multiplies the vector dL/dy by the Jacobian, the
matrix of all dy_i/dx_j. Operations with their vjps are the *nodes* of the computation graph. The
graph leads from the loss back to the *leaves*, which are inputs and parameters. Backpropagation
visits the nodes in reverse topological order and sums the gradients that arrive at each node. This
is reverse-mode automatic differentiation. Next: the tensor, an array with a gradient (tensor.py).
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tinyattn.backend import Array

_numbers = itertools.count(1)
_mode = threading.local()


class Leaf(Protocol):
    """A leaf of the graph: a tensor that no operation computed."""

    version: int  # increased when the values are changed in place

    def describe(self) -> str:
        """Its name and shape, for error messages."""


class Node:
    """One operation in the graph: its inputs and its vjp (PyTorch: grad_fn).

    `vjp(g)` returns d(loss)/d(input) for each input; g is d(loss)/d(result). `inputs` has leaves,
    and for the result of an operation its node, not its tensor. So the graph keeps the array of a
    result alive only if a vjp needs it. Nodes are numbered in the order of creation. Decreasing
    numbers give a reverse topological order without recursion: the operations that use a result
    come before the operation that computed it.
    """

    __slots__ = ("inputs", "name", "number", "versions", "vjp")

    def __init__(
        self, name: str, inputs: Sequence[Node | Leaf], vjp: Callable[[Array], Sequence[Array]]
    ) -> None:
        self.number = next(_numbers)
        self.name = name
        self.inputs = inputs
        self.vjp: Callable[[Array], Sequence[Array]] | None = vjp
        self.versions = [0 if isinstance(i, Node) else i.version for i in inputs]

    def pull(self, g: Array, keep: bool) -> Iterable[tuple[Node | Leaf, Array]]:
        """Pairs (input, gradient that this node contributes to it); frees the vjp unless `keep`."""
        if self.vjp is None:
            raise RuntimeError(
                f"backward: the graph behind {self.name!r} was freed by an earlier backward; "
                "compute the result again, or call backward(retain_graph=True) the first time"
            )
        for source, version in zip(self.inputs, self.versions, strict=True):
            if not isinstance(source, Node) and source.version != version:
                raise RuntimeError(
                    f"backward: {source.describe()} was changed in place after {self.name!r} used "
                    "it (by an optimizer step?); compute the result again"
                )
        contributions = zip(self.inputs, self.vjp(g), strict=True)
        if not keep:
            self.inputs, self.versions, self.vjp = (), [], None
        return contributions


def sweep(start: Node | Leaf, cotangent: Array, *, keep: bool) -> list[tuple[Leaf, Array]]:
    """Backpropagate `cotangent`, d(loss)/d(start), from the newest node to the oldest.

    Returns: each leaf that was reached, with its gradient: the sum of all contributions.
    """
    leaves: dict[int, Leaf] = {}
    total: dict[int, Array] = {}  # id of a node or leaf -> sum of the contributions so far
    owned: set[int] = set()  # ids whose total is a new array made here, so += may change it
    waiting: list[tuple[int, Node]] = []

    def receive(target: Node | Leaf, g: Array) -> None:
        key = id(target)
        if key not in total:
            total[key] = g
            if isinstance(target, Node):
                heapq.heappush(waiting, (-target.number, target))
            else:
                leaves[key] = target
        elif key in owned:
            total[key] += g
        else:
            total[key] = total[key] + g
            owned.add(key)

    receive(start, cotangent)
    while waiting:
        _, node = heapq.heappop(waiting)
        g = total.pop(id(node))
        for source, contribution in node.pull(g, keep):
            receive(source, contribution)
    return [(leaf, total[key]) for key, leaf in leaves.items()]


def recording() -> bool:
    """Whether operations in this thread record the graph (PyTorch: torch.is_grad_enabled)."""
    return not getattr(_mode, "paused", 0)


@contextmanager
def no_grad() -> Iterator[None]:
    """A context in which operations of this thread compute values only and record no graph."""
    _mode.paused = getattr(_mode, "paused", 0) + 1  # open contexts, which may end in any order
    try:
        yield
    finally:
        _mode.paused -= 1
