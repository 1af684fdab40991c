"""The GPT once more, for libraries that look like NumPy: HIPS autograd, JAX, MyGrad and others.

The model is written once, below. The functions that it needs are in `Library`, composed of NumPy's
functions; if a library has its own function, its contender overrides the method. The sequences of a
batch are stacked, (B·T, C), so that each linear map is one matrix product.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


class Library:
    """The functions of a library that the model uses.

    Args:
        numpy: the library's module that replaces NumPy.
        dropout: the dropout probability.
        gelu: "exact" or "tanh".
    """

    number: Any = np.float32  # the type of constants; float32 stays float32

    def __init__(self, numpy: Any, dropout: float, gelu: str) -> None:
        self.np, self.rate, self.exact = numpy, dropout, gelu == "exact"
        self.rng = np.random.default_rng(3)

    def constant(self, values: np.ndarray) -> Any:
        return values

    def rows(self, table: Any, ids: Any) -> Any:
        return table[ids]

    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.np.transpose(x, axes)

    def layer_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        centred = x - self.np.mean(x, axis=-1, keepdims=True)
        variance = self.np.mean(centred * centred, axis=-1, keepdims=True)
        return centred / self.np.sqrt(variance + self.number(1e-5)) * gain + bias

    def softmax(self, x: Any) -> Any:
        e = self.np.exp(x - self.np.max(x, axis=-1, keepdims=True))
        return e / self.np.sum(e, axis=-1, keepdims=True)

    def log_softmax(self, x: Any) -> Any:
        x = x - self.np.max(x, axis=-1, keepdims=True)
        return x - self.np.log(self.np.sum(self.np.exp(x), axis=-1, keepdims=True))

    def gelu(self, x: Any) -> Any:
        if self.exact:
            return x * self.number(0.5) * (self.erf(x * self.number(math.sqrt(0.5))) + 1)
        cubic = x + x * x * x * self.number(0.044715)
        tanh = self.np.tanh(cubic * self.number(math.sqrt(2 / math.pi)))
        return x * self.number(0.5) * (tanh + self.number(1))

    def erf(self, x: Any) -> Any:
        raise NotImplementedError("NumPy has no error function")

    def dropout(self, x: Any) -> Any:
        if not self.rate:
            return x
        keep = self.rng.random(x.shape, np.float32) >= self.rate
        return x * (keep * self.number(1 / (1 - self.rate)))

    def mean_loss(self, logits: Any, targets: Any, weights: Any) -> Any:
        """The weighted sum of -log p(target)."""
        log_p = self.log_softmax(logits)[np.arange(len(targets)), targets]
        return -self.np.sum(log_p * weights)


def loss(library: Library, P: Mapping[str, Any], size: dict[str, int], examples: Any) -> Any:
    """The mean cross-entropy of the targets that are not PAD.

    Args:
        P: parameters, with the names of `common.shapes`.
        examples: from `flat_examples`.
    """
    ids, targets, weights = examples
    T, C, H = size["context"], size["width"], size["heads"]
    B, D = len(ids), C // H
    future = library.constant(np.triu(np.full((T, T), -1e10, np.float32), 1))

    def linear(x: Any, name: str) -> Any:
        return x @ P[f"{name}.weight"] + P[f"{name}.bias"]

    def normed(x: Any, name: str) -> Any:
        return library.layer_norm(x, P[f"{name}.gain"], P[f"{name}.bias"])

    def heads(x: Any) -> Any:
        return library.transpose(x.reshape((B, T, H, D)), (0, 2, 1, 3))

    x = library.rows(P["embedding.weight"], ids) + P["positions.weight"]
    x = library.dropout(x.reshape((B * T, C)))
    for i in range(size["layers"]):
        attention, feedforward = f"layers.{i}.attention", f"layers.{i}.feedforward"
        n = normed(x, f"layers.{i}.norm_1")
        q, k, v = (heads(linear(n, f"{attention}.{name}")) for name in ("query", "key", "value"))
        scores = q @ library.transpose(k, (0, 1, 3, 2)) * library.number(1 / math.sqrt(D)) + future
        y = library.dropout(library.softmax(scores)) @ v
        y = library.transpose(y, (0, 2, 1, 3)).reshape((B * T, C))
        x = x + library.dropout(linear(y, f"{attention}.out"))
        h = library.gelu(linear(normed(x, f"layers.{i}.norm_2"), f"{feedforward}.expand"))
        x = x + library.dropout(linear(h, f"{feedforward}.contract"))
    return library.mean_loss(normed(x, "norm") @ P["head.weight"], targets, weights)


def flat_examples(ids: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ids (B, T), targets (B·T,), and the weight of each in the mean: 0 where it is PAD."""
    flat = targets.reshape(-1)
    return ids, flat, ((flat != 0) / np.count_nonzero(flat)).astype(np.float32)
