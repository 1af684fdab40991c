"""Chapter 5, continued: the contract that every attention block keeps.

A block maps x (B, T, C) to a tensor of the same shape. What it cannot do honestly it refuses, and
says why, rather than doing something else: `cannot` holds these reasons, and what is not named
there it can do. A new mechanism is such a class in a file of its own, imported and entered in
registry.py. Next: multi-head attention.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tinyattn.backend import Array, array_module
from tinyattn.graph import recording
from tinyattn.nn import Dropout, Module, Rotary
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor, result

ABILITIES = {
    "causal": "be kept from looking into the future",
    "bidirectional": "look both ways",
    "context": "look at another sequence",
    "padding": "leave out keys, the same for every query",
    "mask": "leave out any pairs of query and key",
    "cache": "continue a text from what it stored",
    "rotary": "turn queries and keys by their positions",
    "any length": "take a sequence longer than `longest`",
    "focus": "be told to look at few places",
    "near": "be told to look at near places",
}
"""What a block may be asked to do."""


class AttentionBlock(Module):
    """What a model may expect of a block.

    Args:
        width: C.
        heads: H; must divide C.
        longest: the longest sequence it will see, for blocks whose parameters depend on it.
        rng: where the first values of the parameters come from.
        dropout: the share of attention weights, and of outputs, that a training pass drops.
        rotary: whether queries and keys are turned by their positions.
    A block may have further arguments of its own, all of them whole numbers.
    Raises: ValueError if the block cannot be made so.
    """

    cannot: ClassVar[dict[str, str]] = {}  # a name in ABILITIES -> why not
    multiply_adds: ClassVar[str]  # of one sequence forward, as a formula in letters (cost.py)
    kept_numbers: ClassVar[str]  # for backward: queries, keys, values, answers, perhaps weights

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        longest: int,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        if heads < 1 or width % heads:
            raise ValueError(f"{self._name}: heads must divide the width; got {heads} and {width}")
        if longest < 1:
            raise ValueError(f"{self._name}: longest must be at least 1; got {longest}")
        if rotary:
            self._refuse("rotary")
        self.width, self.heads, self.longest = width, heads, longest
        self.dropout = Dropout(dropout)
        self.rotary = Rotary(width // heads) if rotary else None

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Let every position of x look at `context` (by default at x itself).

        Args:
            x: (B, T, C).
            context: (B, S, C), where keys and values come from.
            allowed: boolean, broadcasts to (B, H, T, S); True = may attend. A query for which
                nothing is allowed gets zeros from its heads.
            causal: whether each position sees only itself and what is before it. With fewer
                queries than keys the last query stands at the last key.
            noise: the random bits of a training pass; None means no dropout.
            cache: what the block keeps of the text before x, which x continues.
        Returns: (B, T, C).
        Raises: ValueError if shapes do not fit, or if the block cannot do what is asked.
        """
        raise NotImplementedError(f"{self._name} does not say how it attends")

    def weights(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
    ) -> Tensor:
        """The attention weights of such a call, (B, H, T, S); rows sum to 1, or to 0."""
        raise NotImplementedError(f"{self._name} has no attention weights")

    def sizes(self) -> dict[str, int]:
        """What the letters of its formulas mean, but for T: C, H, and its own."""
        return {"C": self.width, "H": self.heads}

    def check(
        self,
        x: Tensor,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> None:
        """Refuse a call that does not fit. Every block begins with this.

        Raises: ValueError, or RuntimeError for a cache while gradients are recorded.
        """
        for name, tensor in (("x", x), ("context", context)):
            if tensor is not None and (tensor.ndim != 3 or tensor.shape[-1] != self.width):
                raise ValueError(
                    f"{self._name}: {name} must be (B, T, {self.width}); got {tensor.shape}"
                )
            if tensor is not None and tensor.shape[1] == 0:
                raise ValueError(f"{self._name}: {name} must have a position at least")
        if context is not None and context.shape[0] != x.shape[0]:
            raise ValueError(
                f"{self._name}: context must have x's {x.shape[0]} rows; got {context.shape[0]}"
            )
        if context is not None and cache is not None:
            raise ValueError(f"{self._name}: a cache continues x itself; it cannot hold a context")
        if cache is not None and recording():
            raise RuntimeError(f"{self._name}: a cache keeps no gradients; use it inside no_grad()")
        self._refuse("causal" if causal else "bidirectional")
        if context is not None:
            self._refuse("context")
        if cache is not None:
            self._refuse("cache")
        if allowed is not None:
            same_for_all = allowed.ndim < 2 or allowed.shape[-2] == 1
            self._refuse("padding" if same_for_all else "mask")
        length = (x if context is None else context).shape[1] + (cache.length if cache else 0)
        if length > self.longest and "any length" in self.cannot:
            raise ValueError(
                f"{self._name}: made for sequences of at most {self.longest}; got {length}; "
                f"{self.cannot['any length']}"
            )

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _refuse(self, ability: str) -> None:
        """Raise a ValueError with the reason, if there is one why this block cannot do that."""
        if ability in self.cannot:
            raise ValueError(f"{self._name} cannot {ABILITIES[ability]}: {self.cannot[ability]}")


class KeyValueCache:
    """What a block keeps of the text so far, so that continuing it need not compute it again.

    For most blocks these are keys and values. Room for `capacity` positions is set aside at the
    first use.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._stores: list[Any] = []

    def append(self, *tensors: Tensor) -> list[Tensor]:
        """Add the next T positions to each store (B, H, any, D); returns all there are in each.

        What it returns are views of the stores, and constants: no gradient goes through a cache.
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
