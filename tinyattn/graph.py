"""Chapter 1: how a gradient finds its way back.

Whoever computes y from x can note down, beside the value of y, how a change of the loss with y
becomes a change of the loss with x: the *vjp* (vector-Jacobian product), a function from the
gradient of y to the gradient of x. Such notes are the *nodes* of a graph that leads from the loss
back to where everything began, the leaves. Visiting them from the newest to the oldest, and adding
up what arrives at each, is the whole of automatic differentiation. Next: a tensor is an array that
remembers how it was made (tensor.py).
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
    """Where a way back ends: something that was given, not computed."""

    version: int  # grows when its values are changed in place

    def describe(self) -> str:
        """Its name and shape, for error messages."""


class Node:
    """One operation in the graph: where its inputs came from and how to pull a gradient back.

    `vjp(g)` gives, for the gradient g of the result, the gradient of each input. Inputs are other
    nodes or leaves, never the results of operations: so an array that no vjp needs is freed as
    soon as its user lets go. Numbers grow with time, so visiting nodes by falling number meets
    every node after all of its users, without recursion.
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
        """Each input with its share of the gradient `g`; frees what was saved unless `keep`."""
        if self.vjp is None:
            raise RuntimeError(
                f"backward: the graph behind {self.name!r} was freed by an earlier backward; "
                "compute the result again, or call backward(retain_graph=True) the first time"
            )
        for source, version in zip(self.inputs, self.versions, strict=True):
            if not isinstance(source, Node) and source.version != version:
                raise RuntimeError(
                    f"backward: {source.describe()} was changed in place after {self.name!r} used "
                    "it (by an optimiser step?); compute the result again"
                )
        shares = zip(self.inputs, self.vjp(g), strict=True)
        if not keep:
            self.inputs, self.versions, self.vjp = (), [], None
        return shares


def sweep(start: Node | Leaf, cotangent: Array, *, keep: bool) -> list[tuple[Leaf, Array]]:
    """Visit the nodes from the newest to the oldest, passing gradients to their inputs.

    Returns: each leaf that was reached, with the sum of what arrived there.
    """
    leaves: dict[int, Leaf] = {}
    total: dict[int, Array] = {}  # id of a node or leaf -> gradient that has arrived so far
    ours: set[int] = set()  # ids whose total is an array that nobody else holds
    waiting: list[tuple[int, Node]] = []

    def receive(target: Node | Leaf, g: Array) -> None:
        key = id(target)
        if key not in total:
            total[key] = g
            if isinstance(target, Node):
                heapq.heappush(waiting, (-target.number, target))
            else:
                leaves[key] = target
        elif key in ours:
            total[key] += g
        else:
            total[key] = total[key] + g
            ours.add(key)

    receive(start, cotangent)
    while waiting:
        _, node = heapq.heappop(waiting)
        g = total.pop(id(node))
        for source, share in node.pull(g, keep):
            receive(source, share)
    return [(leaf, total[key]) for key, leaf in leaves.items()]


def recording() -> bool:
    """Whether ops in this thread remember how their results were made."""
    return not getattr(_mode, "paused", 0)


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside this context, in this thread, ops compute values only and remember nothing.

    Such contexts are counted, so that they may end in any order, as in generators that take turns.
    """
    _mode.paused = getattr(_mode, "paused", 0) + 1
    try:
        yield
    finally:
        _mode.paused -= 1
