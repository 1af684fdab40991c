"""The GPT of A5 in PyTorch, with attention as explicit operations or fused (SDPA)."""

import math

import torch
from common import initial_values
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head attention; only `mix` differs between explicit and fused attention."""

    def __init__(self, size: dict[str, int], dropout: float, fused: bool) -> None:
        super().__init__()
        C, T, self.heads = size["width"], size["context"], size["heads"]
        self.fused, self.rate = fused, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(C, C) for _ in range(4))
        self.drop_weights, self.drop = nn.Dropout(dropout), nn.Dropout(dropout)
        self.register_buffer("past", torch.ones(T, T).tril().bool(), persistent=False)

    def split(self, x):
        """Queries, keys and values, each (B, H, T, D)."""
        B, T, C = x.shape
        return [f(x).view(B, T, self.heads, C // self.heads).transpose(1, 2)
                for f in (self.query, self.key, self.value)]  # fmt: skip

    def mix(self, q, k, v, allowed=None, causal=False):
        rate = self.rate if self.training else 0.0
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, allowed, rate, is_causal=causal)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if causal:
            allowed = self.past[: q.shape[2], : q.shape[2]]
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -1e10)
        return self.drop_weights(scores.softmax(-1)) @ v

    def merge(self, y):
        return self.drop(self.out(y.transpose(1, 2).flatten(2)))

    def forward(self, x):
        return self.merge(self.mix(*self.split(x), causal=True))


class FeedForward(nn.Module):
    def __init__(self, C: int, dropout: float, gelu: str) -> None:
        super().__init__()
        self.expand, self.contract = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.gelu = nn.GELU("none" if gelu == "exact" else "tanh")
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.contract(self.gelu(self.expand(x))))


class Layer(nn.Module):
    def __init__(self, size: dict[str, int], dropout: float, gelu: str, fused: bool) -> None:
        super().__init__()
        C = size["width"]
        self.norm_1, self.norm_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attention = Attention(size, dropout, fused)
        self.feedforward = FeedForward(C, dropout, gelu)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feedforward(self.norm_2(x))


class GPT(nn.Module):
    def __init__(
        self, size: dict[str, int], dropout: float = 0.0, gelu: str = "exact", fused: bool = False
    ) -> None:
        super().__init__()
        V, T, C = size["vocabulary"], size["context"], size["width"]
        self.embedding, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            Layer(size, dropout, gelu, fused) for _ in range(size["layers"])
        )
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)
        self._load(initial_values(size))

    def forward(self, ids):
        x = self.drop(self.embedding(ids) + self.positions.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def _load(self, values) -> None:
        """Load the initial values of all contenders; linear weights are stored transposed."""
        with torch.no_grad():
            for path, module in self.named_modules():
                for name, parameter in module.named_parameters(recurse=False):
                    gain = isinstance(module, nn.LayerNorm) and name == "weight"
                    value = torch.from_numpy(values[f"{path}.{'gain' if gain else name}"].copy())
                    transposed = isinstance(module, nn.Linear) and name == "weight"
                    parameter.copy_(value.T if transposed else value)
