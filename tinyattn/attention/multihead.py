"""Chapter 2: multi-head attention.

A head computes one weighted mean of the values for each query. H heads, each of width D = C/H,
compute H such means, and a linear map (the output projection) combines them. Without
`context` this is self-attention, with it cross-attention. An attention type overrides `attend` if
it only changes which positions a query attends to. Next: layer norm (ops/normalization.py).
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
    """Scaled dot-product attention in H heads: self-attention (z = x) or cross-attention.

    Forward: q = x W_q + b_q, k = z W_k + b_k, v = z W_v + b_v, with its own W and b in each head;
             y_h = softmax(q kᵀ/√D) v in head h; y = [y_1 .. y_H] W_o + b_o
    Shapes:  x (B, T, C), context z (B, S, C), W_q, W_k, W_v (C, D) in each head, and b_q, b_k,
             b_v (D,); W_o (C, C), b_o (C,) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError if H does not divide C, or shapes do not fit
    Source:  Vaswani and others 2017, section 3.2; biases as in A5 (CS224N's assignment 5)
    """

    multiply_adds = "4·T·C² + 2·T²·C"
    kept_elements = "4·T·C"

    def build(self, rng: np.random.Generator) -> None:
        """Create four linear maps: to queries, keys, values of all heads; the output projection."""
        self.scale = 1 / math.sqrt(self.query_width)
        self.query, self.key, self.value, self.out = (
            Linear(self.width, self.width, rng=rng) for _ in range(4)
        )

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """The output projection of all heads' outputs, (B, T, C)."""
        z = x if call.context is None else call.context  # self-attention or cross-attention
        q_BHTD, k_BHSD = self.queries_and_keys(x, z, call.start)  # a name ends with its axes
        v_BHSD = split_heads(self.value(z), self.heads)
        if call.cache is not None:
            k_BHSD, v_BHSD = call.cache.append(k_BHSD, v_BHSD)
        y_BHTD = self.attend(q_BHTD, k_BHSD, v_BHSD, call)
        if call.hooks:
            y_BHTD = call.hooks.heads(self, x, y_BHTD, call)
        return self.dropout(self.out(merge_heads(y_BHTD)), call.dropout_rng)

    def queries_and_keys(self, x: Tensor, z: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, D), keys (B, H, S, D). The positions for `rotary` begin at `start`."""
        q_BHTD = split_heads(self.query(x), self.heads)
        k_BHSD = split_heads(self.key(z), self.heads)
        if self.rotary is not None:
            q_BHTD, k_BHSD = self.rotary(q_BHTD, start), self.rotary(k_BHSD, start)
        return q_BHTD, k_BHSD

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """The outputs of the heads, (B, H, T, E); E = D, but E = S if `weigh` calls it."""
        return ops.attention(
            q_BHTD, k_BHSD, v_BHSE, call.allowed, causal=call.causal, scale=self.scale,
            dropout=self.dropout.rate, dropout_rng=call.dropout_rng,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The attention weights of every head, (B, H, T, S).

        A head's output is its weights times the values. So if a subclass overrides `attend`, we
        call it with the identity matrix as values: its output is the weights.
        """
        q_BHTD, k_BHSD = self.queries_and_keys(x, x if call.context is None else call.context)
        if type(self).attend is not MultiHead.attend:
            (B, H, _, _), S = q_BHTD.shape, k_BHSD.shape[2]
            identity = Tensor(np.eye(S), dtype=x.dtype, device=x.device)
            return self.attend(q_BHTD, k_BHSD, identity.broadcast_to((B, H, S, S)), call)
        scores_BHTS = q_BHTD @ k_BHSD.swapaxes(-1, -2) * self.scale
        return ops.softmax(scores_BHTS, combined(call.allowed, call.causal, q_BHTD, k_BHSD))

    def weighted_values(self, x: Tensor, call: Call) -> Tensor:
        """The values (B, H, S, D); the outputs of the heads are the weights times these."""
        return split_heads(self.value(x if call.context is None else call.context), self.heads)


def split_heads(x_BTC: Tensor, heads: int) -> Tensor:
    """(B, T, C) -> (B, H, T, D), D = C/H: head h gets the columns from h·D on of each row."""
    B, T, C = x_BTC.shape
    return x_BTC.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)


def merge_heads(x_BHTD: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, C), C = H·D: the heads side by side again."""
    B, H, T, D = x_BHTD.shape
    return x_BHTD.transpose(0, 2, 1, 3).reshape(B, T, H * D)


def combined(allowed: Array | None, is_causal: bool, queries: Tensor, keys: Tensor) -> Array | None:
    """The attention mask `allowed` and, if `is_causal`, the causal mask: the logical AND of both.

    Shapes: queries (..., T, D), keys (..., S, D); the masks broadcast to (..., T, S).
    """
    if not is_causal:
        return allowed
    past = causal(queries.shape[-2], keys.shape[-2], xp=queries.xp)
    return past if allowed is None else past & allowed
