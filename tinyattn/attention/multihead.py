"""Chapter 2: multi-head attention.

One head can look for one thing. Several heads, each in its own slice of the width, look for several
things at once, and a last linear map puts their answers together. Kinds that differ from this one
only in who looks at whom replace its method `attend`. Next: layer normalisation
(ops/normalization.py).
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import AttentionBlock, Call
from tinyattn.attention.masks import causal
from tinyattn.backend import Array
from tinyattn.nn import Linear
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

    def build(self, rng: np.random.Generator) -> None:
        """Four linear maps: to queries, keys, values, and of the heads' answers."""
        self.scale = 1 / math.sqrt(self.query_width)
        self.query, self.key, self.value, self.out = (
            Linear(self.width, self.width, rng=rng) for _ in range(4)
        )

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """Each head's answers, put together."""
        z = x if call.context is None else call.context
        q_BHTD, k_BHSD = self.queries_and_keys(x, z, call.start)
        v_BHSD = split_heads(self.value(z), self.heads)
        if call.cache is not None:
            k_BHSD, v_BHSD = call.cache.append(k_BHSD, v_BHSD)
        y_BHTD = self.attend(q_BHTD, k_BHSD, v_BHSD, call)
        return self.dropout(self.out(merge_heads(y_BHTD)), call.noise)

    def queries_and_keys(self, x: Tensor, z: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """Queries of x (B, H, T, D) and keys of z (B, H, S, D), turned if there is `rotary`.

        Args: start: the position of the first row of each.
        """
        q_BHTD = split_heads(self.query(x), self.heads)
        k_BHSD = split_heads(self.key(z), self.heads)
        if self.rotary is not None:
            q_BHTD, k_BHSD = self.rotary(q_BHTD, start), self.rotary(k_BHSD, start)
        return q_BHTD, k_BHSD

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """What each query reads from the values: (B, H, T, E)."""
        return ops.attention(
            q_BHTD, k_BHSD, v_BHSE, call.allowed, causal=call.causal, scale=self.scale,
            dropout=self.dropout.rate, noise=call.noise,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights of every head, (B, H, T, S).

        Answers are linear in the values. So where `attend` has been replaced, what it reads from
        the rows of the identity are the weights.
        """
        q_BHTD, k_BHSD = self.queries_and_keys(x, x if call.context is None else call.context)
        if type(self).attend is not MultiHead.attend:
            (B, H, _, _), S = q_BHTD.shape, k_BHSD.shape[2]
            identity = Tensor(np.eye(S), dtype=x.dtype, device=x.device)
            return self.attend(q_BHTD, k_BHSD, identity.broadcast_to((B, H, S, S)), call)
        scores_BHTS = q_BHTD @ k_BHSD.swapaxes(-1, -2) * self.scale
        return ops.softmax(scores_BHTS, combined(call.allowed, call.causal, q_BHTD, k_BHSD))


def split_heads(x_BTC: Tensor, heads: int) -> Tensor:
    """(B, T, C) -> (B, H, T, D), D = C/H: each head gets its own slice of every position."""
    B, T, C = x_BTC.shape
    return x_BTC.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)


def merge_heads(x_BHTD: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, C), C = H·D: the heads side by side again."""
    B, H, T, D = x_BHTD.shape
    return x_BHTD.transpose(0, 2, 1, 3).reshape(B, T, H * D)


def combined(allowed: Array | None, is_causal: bool, queries: Tensor, keys: Tensor) -> Array | None:
    """A caller's mask and, if wanted, the causal one, in one: what both allow.

    Shapes: queries (..., T, D), keys (..., S, D); the masks broadcast to (..., T, S).
    """
    if not is_causal:
        return allowed
    past = causal(queries.shape[-2], keys.shape[-2], xp=queries.xp)
    return past if allowed is None else past & allowed
