"""Chapter 3: the key-value cache of generation.

In causal attention the keys and values of a position do not change when the sequence grows. So they
are computed once and kept for the positions that follow. Next: a transformer layer
(models/layer.py).
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array, array_module
from tinyattn.tensor import Tensor, result


class KeyValueCache:
    """The keys and values of an attention block so far, for at most `capacity` positions.

    An attention type without keys (attention/synthesizer.py) stores its values only. Memory for all
    positions is allocated at the first use.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._stores: list[Any] = []

    def append(self, *tensors: Tensor) -> list[Tensor]:
        """Add the next T positions, (B, H, T, D) each; returns all positions so far of each tensor.

        The returned tensors are views of the cache. No gradient flows through them.
        Raises: ValueError beyond the capacity, or for another B, H or D than before.
        """
        return [result(array, None) for array in self.put(*(tensor.data for tensor in tensors))]

    def put(self, *arrays: Array) -> list[Array]:
        """`append` for arrays."""
        stop = self.length + arrays[0].shape[2]
        if stop > self.capacity:
            raise ValueError(f"KeyValueCache: has room for {self.capacity} positions; got {stop}")
        if not self._stores:
            self._stores = [
                array_module(a).empty((*a.shape[:2], self.capacity, a.shape[3]), dtype=a.dtype)
                for a in arrays
            ]
        for store, array in zip(self._stores, arrays, strict=True):
            if store.shape[:2] != array.shape[:2] or store.shape[3] != array.shape[3]:
                raise ValueError(f"KeyValueCache: has (B, H, {self.capacity}, D) = {store.shape}; "
                                 f"got {array.shape}")  # fmt: skip
        for store, array in zip(self._stores, arrays, strict=True):
            store[:, :, self.length : stop] = array
        self.length = stop
        return [store[:, :, :stop] for store in self._stores]
