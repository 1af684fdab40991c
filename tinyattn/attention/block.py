"""Chapter 5, continued: the contract that every attention block keeps.

A block maps x (B, T, C) to a tensor of the same shape. It declares what it can do; what it cannot
do honestly it refuses, with the reason, rather than doing something else. A new mechanism is one
file with such a class and one line in registry.py. Next: multi-head attention.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tinyattn.backend import Array, array_module
from tinyattn.nn import Module
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor


class AttentionBlock(Module):
    """What a model may expect of a block.

    Args:
        width: C.
        heads: H; must divide C.
        rng: where the first values of the parameters come from.
        dropout: the share of attention weights, and of outputs, that a training pass drops.
        rotary: whether queries and keys are turned by their positions.
    Raises: ValueError if the block cannot be made so.
    """

    causal: ClassVar[bool]  # can it be kept from looking into the future?
    cross: ClassVar[bool]  # can it look at another sequence (`context`)?
    any_length: ClassVar[bool]  # does it take sequences of every length?
    cached: ClassVar[bool]  # can it continue a text from stored keys and values?

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what it is made of")

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Let every position of x look at `context` (by default at x itself).

        Args:
            x: (B, T, C).
            context: (B, S, C), where keys and values come from.
            allowed: boolean, broadcasts to (B, H, T, S); True = may attend. A query for which
                nothing is allowed gets zeros from its heads.
            noise: the random bits of a training pass; None means no dropout.
            cache: keys and values of the text before x, which is appended to them.
        Returns: (B, T, C).
        Raises: ValueError if shapes do not fit, or if the block cannot do what is asked.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it attends")

    def weights(
        self, x: Tensor, *, context: Tensor | None = None, allowed: Array | None = None
    ) -> Tensor:
        """The attention weights of such a call, (B, H, T, S); rows sum to 1, or to 0."""
        raise NotImplementedError(f"{type(self).__name__} has no attention weights")


class KeyValueCache:
    """The keys and values of the text so far, so that continuing it need not compute them again.

    Room for `capacity` positions is set aside at the first use.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._keys: Any = None
        self._values: Any = None

    def append(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Add keys and values (B, H, T, D); returns all there are, (B, H, length, D).

        Raises: ValueError beyond the capacity.
        """
        B, H, T, D = keys.shape
        stop = self.length + T
        if stop > self.capacity:
            raise ValueError(f"KeyValueCache: has room for {self.capacity} positions; got {stop}")
        if self._keys is None:
            xp = array_module(keys, values)
            self._keys = xp.empty((B, H, self.capacity, D), dtype=keys.dtype)
            self._values = xp.empty((B, H, self.capacity, D), dtype=values.dtype)
        self._keys[:, :, self.length : stop] = keys
        self._values[:, :, self.length : stop] = values
        self.length = stop
        return self._keys[:, :, :stop], self._values[:, :, :stop]
