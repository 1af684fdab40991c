"""Chapter 5, continued: multi-head attention.

One head can look for one thing. Several heads, each in its own slice of the width, look for
several things at once, and a last linear map puts their answers together. Next: the registry.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import AttentionBlock, KeyValueCache
from tinyattn.attention.core import merge_heads, split_heads
from tinyattn.backend import Array
from tinyattn.graph import recording
from tinyattn.nn import Dropout, Linear, Rotary
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor


class MultiHead(AttentionBlock):
    """Scaled dot-product attention in H heads.

    Forward: Y_h = softmax(X Q_h (Z K_h)ᵀ/√D) Z V_h for head h; y = [Y_1 .. Y_H] W + b
    Shapes:  x X (B, T, C), context Z (B, S, C), Q_h, K_h, V_h (C, D), W (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError if H does not divide C, or shapes do not fit
    Source:  Vaswani and others 2017, section 3.2; every map with a bias, as in A5
    """

    causal = cross = any_length = cached = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        if heads < 1 or width % heads:
            raise ValueError(f"MultiHead: heads must divide the width; got {heads} and {width}")
        self.heads, self.scale = heads, 1 / math.sqrt(width // heads)
        self.query = Linear(width, width, rng=rng)
        self.key = Linear(width, width, rng=rng)
        self.value = Linear(width, width, rng=rng)
        self.out = Linear(width, width, rng=rng)
        self.dropout = Dropout(dropout)
        self.rotary = Rotary(width // heads) if rotary else None

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        q_BHTD, k_BHSD = self._queries_and_keys(x, context, cache)
        v_BHSD = split_heads(self.value(x if context is None else context), self.heads)
        if cache is not None:
            keys, values = cache.append(k_BHSD.data, v_BHSD.data)
            k_BHSD, v_BHSD = Tensor(keys), Tensor(values)
        y_BHTD = ops.attention(
            q_BHTD, k_BHSD, v_BHSD, allowed,
            scale=self.scale, dropout=self.dropout.rate, noise=noise,
        )  # fmt: skip
        return self.dropout(self.out(merge_heads(y_BHTD)), noise)

    def weights(
        self, x: Tensor, *, context: Tensor | None = None, allowed: Array | None = None
    ) -> Tensor:
        """The weights of every head, (B, H, T, S), as `AttentionBlock.weights` says."""
        q_BHTD, k_BHSD = self._queries_and_keys(x, context, None)
        scores_BHTS = q_BHTD @ k_BHSD.swapaxes(-1, -2) * self.scale
        return ops.softmax(scores_BHTS, allowed)

    def _queries_and_keys(
        self, x: Tensor, context: Tensor | None, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, D) and keys (B, H, S, D), turned by their positions if rotary."""
        for name, tensor in (("x", x), ("context", context)):
            width = self.query.weight.shape[0]
            if tensor is not None and (tensor.ndim != 3 or tensor.shape[-1] != width):
                raise ValueError(f"MultiHead: {name} must be (B, T, {width}); got {tensor.shape}")
        if context is not None and context.shape[0] != x.shape[0]:
            raise ValueError(
                f"MultiHead: context must have x's {x.shape[0]} rows; got {context.shape[0]}"
            )
        if context is not None and cache is not None:
            raise ValueError("MultiHead: a cache continues x itself; it cannot hold a context")
        if cache is not None and recording():
            raise RuntimeError("MultiHead: a cache keeps no gradients; use it inside no_grad()")
        q_BHTD = split_heads(self.query(x), self.heads)
        k_BHSD = split_heads(self.key(x if context is None else context), self.heads)
        if self.rotary is not None:
            start = cache.length if cache is not None else 0
            q_BHTD, k_BHSD = self.rotary(q_BHTD, start), self.rotary(k_BHSD, start)
        return q_BHTD, k_BHSD
