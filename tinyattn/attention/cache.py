"""Chapter 3: what is kept of a sequence while it is continued.

A causal block computes for each position what later positions read: keys and values. They do not
change when the sequence grows, so they are kept. Next: a layer lets positions look around, and then
each think for itself (models/layer.py).
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import array_module
from tinyattn.tensor import Tensor, result


class KeyValueCache:
    """The keys and values that a block has computed so far, for at most `capacity` positions.

    A block without keys keeps its values only. Room for all positions is set aside at the first
    use.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._stores: list[Any] = []

    def append(self, *tensors: Tensor) -> list[Tensor]:
        """Add the next T positions to each store (B, H, any, D); returns all there are in each.

        The result is views of the stores, and constants: no gradient goes through a cache.
        Raises: ValueError beyond the capacity.
        """
        arrays = [tensor.data for tensor in tensors]
        stop = self.length + arrays[0].shape[2]
        if stop > self.capacity:
            raise ValueError(f"KeyValueCache: has room for {self.capacity} positions; got {stop}")
        if not self._stores:
            self._stores = [
                array_module(a).empty((*a.shape[:2], self.capacity, a.shape[3]), dtype=a.dtype)
                for a in arrays
            ]
        for store, array in zip(self._stores, arrays, strict=True):
            store[:, :, self.length : stop] = array
        self.length = stop
        return [result(store[:, :, :stop], None) for store in self._stores]
