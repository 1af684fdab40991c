"""Chapter 5, continued: multi-head attention.

One head can look for one thing. Several heads, each in its own slice of the width, look for
several things at once, and a last linear map puts their answers together. Blocks that differ from
this one only in who looks at whom replace its method `look`. Next: one matrix for two.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import AttentionBlock, KeyValueCache
from tinyattn.attention.core import merge_heads, split_heads
from tinyattn.attention.masks import combined
from tinyattn.backend import Array
from tinyattn.nn import Linear
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

    multiply_adds = "4·T·C² + 2·T²·C"
    kept_numbers = "4·T·C"

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
        super().__init__(width, heads, longest=longest, rng=rng, dropout=dropout, rotary=rotary)
        self.scale = 1 / math.sqrt(width // heads)
        self.query = Linear(width, width, rng=rng)
        self.key = Linear(width, width, rng=rng)
        self.value = Linear(width, width, rng=rng)
        self.out = Linear(width, width, rng=rng)

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
        self.check(x, context, allowed, causal, cache)
        q_BHTD, k_BHSD = self.queries_and_keys(x, context, cache.length if cache else 0)
        v_BHSD = split_heads(self.value(x if context is None else context), self.heads)
        if cache is not None:
            k_BHSD, v_BHSD = cache.append(k_BHSD, v_BHSD)
        y_BHTD = self.look(q_BHTD, k_BHSD, v_BHSD, allowed, causal, noise)
        return self.dropout(self.out(merge_heads(y_BHTD)), noise)

    def queries_and_keys(
        self, x: Tensor, context: Tensor | None, start: int
    ) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, D) and keys (B, H, S, D), turned by their positions if rotary.

        Args: start: the position of x's first symbol.
        """
        q_BHTD = split_heads(self.query(x), self.heads)
        k_BHSD = split_heads(self.key(x if context is None else context), self.heads)
        if self.rotary is not None:
            q_BHTD, k_BHSD = self.rotary(q_BHTD, start), self.rotary(k_BHSD, start)
        return q_BHTD, k_BHSD

    def look(
        self,
        q_BHTD: Tensor,
        k_BHSD: Tensor,
        v_BHSE: Tensor,
        allowed: Array | None,
        causal: bool,
        noise: Noise | None,
    ) -> Tensor:
        """What each query reads from the values: (B, H, T, E)."""
        return ops.attention(
            q_BHTD, k_BHSD, v_BHSE, allowed, causal=causal, scale=self.scale,
            dropout=self.dropout.rate, noise=noise,
        )  # fmt: skip

    def weights(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
    ) -> Tensor:
        """The weights of every head, (B, H, T, S), as `AttentionBlock.weights` says.

        Answers are linear in the values. So where `look` has been replaced, what it reads from the
        rows of the identity are the weights.
        """
        self.check(x, context, allowed, causal)
        q_BHTD, k_BHSD = self.queries_and_keys(x, context, 0)
        if type(self).look is not MultiHead.look:
            (B, H, _, _), S = q_BHTD.shape, k_BHSD.shape[2]
            identity = Tensor(np.eye(S), dtype=x.dtype, device=x.device)
            values_BHSS = identity.broadcast_to((B, H, S, S))
            return self.look(q_BHTD, k_BHSD, values_BHSS, allowed, causal, None)
        scores_BHTS = q_BHTD @ k_BHSD.swapaxes(-1, -2) * self.scale
        return ops.softmax(scores_BHTS, combined(allowed, causal, q_BHTD, k_BHSD))
