"""Engine room, parallel: the parameters of an optimizer in one long array.

A model has dozens of parameters, and a rule updates each element of all of them in the same way. So
all parameters are views of one flat array, their gradients of a second one, and each optimizer
state of another. Then adding gradients, clipping and the update are a few operations on long
arrays, or on tiles of them that fit a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tinyattn.backend import Array, array_module
from tinyattn.dispatch import dispatched
from tinyattn.parallel.threads import on_gpu
from tinyattn.tensor import Tensor
from tinyattn.training.optimizers import Optimizer

TILE = 1 << 17
"""Elements of a tile; it fits the cache of a core with a rule's results (kernels/cpu/tiles.py)."""


def tiles(length: int) -> Iterator[slice]:
    """Slices that cut an array of this length into tiles."""
    for start in range(0, length, TILE):
        yield slice(start, min(start + TILE, length))


class Piece(NamedTuple):
    """Elements that the rule of an optimizer updates together: arguments of `Optimizer.move`."""

    w: Array
    g: Array
    moments: list[Array]
    decay: Array | float


class FlatParameters:
    """The parameters of an optimizer in one array `values`, their gradients in `grads`.

    The data of each parameter becomes a view of `values`, and each optimizer state a view of an
    array in `moments`. Code that writes to `values` must call `changed`.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        named = optimizer.named
        first = next(iter(named.values()))
        self.xp, decayed = first.xp, optimizer.decayed
        order = [*named]
        if optimizer.alone == "element":
            order.sort(key=lambda name: name not in decayed)
        if optimizer.alone == "matrix" and on_gpu(self.xp):
            # Matrices of one shape are adjacent, and form a stack.
            order.sort(key=lambda name: (named[name].shape, name not in decayed))
        self.named = {name: named[name] for name in order}
        size = sum(p.size for p in named.values())
        self.values = self.xp.empty(size, dtype=first.dtype)
        self.grads = self.xp.zeros(size, dtype=first.dtype)
        self._homes = [(named[name], view) for name, view in self.views(self.values).items()]
        self.gather()
        self.moments = []
        for state in optimizer.state_arrays.values():
            flat = self.xp.empty(size, dtype=first.dtype)
            for name, view in self.views(flat).items():
                view[...] = state[name]
                state[name] = view
            self.moments.append(flat)
        self.pieces = [*self._pieces(optimizer)]

    def gather(self) -> None:
        """Copy in parameters whose data is elsewhere: another optimizer may have moved them."""
        for parameter, view in self._homes:
            if parameter.data is not view:
                view[...] = parameter.data
                parameter.share(view)

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

    def changed(self) -> None:
        """Mark every parameter as changed in place."""
        for parameter in self.named.values():
            parameter.changed_in_place()

    def _pieces(self, optimizer: Optimizer) -> Iterator[Piece]:
        """The pieces that the rule updates. Large ones first, so that threads end together."""
        if optimizer.alone == "element":
            yield from self._tiles(optimizer)
        elif optimizer.alone == "matrix" and on_gpu(self.xp):
            yield from self._stacks(optimizer)
        else:
            parts = [self.views(flat) for flat in (self.values, self.grads, *self.moments)]
            for name in sorted(self.named, key=lambda name: -self.named[name].size):
                w, g, *moments = (part[name] for part in parts)
                yield Piece(w, g, moments, optimizer.decay_of(name))

    def _tiles(self, optimizer: Optimizer) -> Iterator[Piece]:
        """Tiles of the parameters with weight decay, then of the others; on a GPU one piece."""
        edge = sum(self.named[name].size for name in optimizer.decayed)
        size, decay = len(self.values), optimizer.weight_decay
        decays: Array | float
        if on_gpu(self.xp):
            decays = decay if edge else 0.0
            if 0 < edge < size:
                decays = self.xp.zeros_like(self.values)
                decays[:edge] = decay
            yield self._piece(slice(0, size), decays)
            return
        for start, stop, tile_decay in ((0, edge, decay), (edge, size, 0.0)):
            for tile in tiles(stop - start):
                yield self._piece(slice(start + tile.start, start + tile.stop), tile_decay)

    def _stacks(self, optimizer: Optimizer) -> Iterator[Piece]:
        """Matrices of one shape and decay as one stack: a GPU is fast at few large operations."""
        start = 0
        keys = [(p.shape, optimizer.decay_of(name)) for name, p in self.named.items()]
        for (shape, decay), alike in groupby(keys):
            stack = (len(list(alike)), *shape)
            piece = self._piece(slice(start, start + math.prod(stack)), decay)
            start += math.prod(stack)
            w, g, *moments = (a.reshape(stack) for a in (piece.w, piece.g, *piece.moments))
            yield Piece(w, g, moments, decay)

    def _piece(self, part: slice, decay: Array | float) -> Piece:
        moments = [moment[part] for moment in self.moments]
        return Piece(self.values[part], self.grads[part], moments, decay)


_flat: WeakKeyDictionary[Optimizer, FlatParameters] = WeakKeyDictionary()


def flat_of(optimizer: Optimizer) -> FlatParameters:
    """The flat arrays of an optimizer, which are kept as long as the optimizer exists."""
    if optimizer not in _flat:
        _flat[optimizer] = FlatParameters(optimizer)
    return _flat[optimizer]


def add_gradients(collector: dict[int, Array], gradients: list[tuple[Tensor, Array]]) -> None:
    """Add the gradients that `tensor.gradients` returned to the pieces of a flat array."""
    ours = [(collector[id(leaf)], g) for leaf, g in gradients if id(leaf) in collector]
    if ours:  # no optimizer moves the other leaves
        sums, values = map(list, zip(*ours, strict=True))
        add_each(array_module(sums[0]), sums, values)


@dispatched
def add_each(xp: Any, sums: list[Array], values: list[Array]) -> None:
    """Add to each array in `sums` the value of the same index, which has its shape."""
    for total, value in zip(sums, values, strict=True):
        total += value
