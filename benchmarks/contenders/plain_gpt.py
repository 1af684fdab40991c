"""The GPT once more, for libraries that look like NumPy: HIPS autograd, JAX, MyGrad and others.

The model is written once, below. What it needs of a library stands in `Library`, composed of
NumPy's functions; where a library has one of its own, its contender puts that in its place. Texts
lie below one another, (B·T, C), so that each linear map is one product of matrices.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


class Library:
    """What the model asks of a library.

    Args:
        numpy: the library's stand-in for NumPy.
        dropout: the share that is dropped.
        gelu: "exact" or "tanh".
    """

    number: Any = np.float32  # what constants are made of, so that float32 stays float32

    def __init__(self, numpy: Any, dropout: float, gelu: str) -> None:
        self.np, self.rate, self.exact = numpy, dropout, gelu == "exact"
        self.rng = np.random.default_rng(3)

    def constant(self, values: np.ndarray) -> Any:
        return values

    def rows(self, table: Any, ids: Any) -> Any:
        return table[ids]

    def turn(self, x: Any, axes: tuple[int, ...]) -> Any:
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
    """The mean cross-entropy of the targets that count.

    Args:
        P: parameters by name, as `common.shapes` says.
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
        return library.turn(x.reshape((B, T, H, D)), (0, 2, 1, 3))

    x = library.rows(P["embedding.weight"], ids) + P["positions.weight"]
    x = library.dropout(x.reshape((B * T, C)))
    for i in range(size["layers"]):
        look, think = f"blocks.{i}.attention", f"blocks.{i}.feedforward"
        n = normed(x, f"blocks.{i}.norm_1")
        q, k, v = (heads(linear(n, f"{look}.{name}")) for name in ("query", "key", "value"))
        scores = q @ library.turn(k, (0, 1, 3, 2)) * library.number(1 / math.sqrt(D)) + future
        y = library.dropout(library.softmax(scores)) @ v
        y = library.turn(y, (0, 2, 1, 3)).reshape((B * T, C))
        x = x + library.dropout(linear(y, f"{look}.out"))
        h = library.gelu(linear(normed(x, f"blocks.{i}.norm_2"), f"{think}.expand"))
        x = x + library.dropout(linear(h, f"{think}.contract"))
    return library.mean_loss(normed(x, "norm") @ P["head.weight"], targets, weights)


def flat_examples(ids: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ids (B, T), targets (B·T,), and the weight of each in the mean: 0 where it is PAD."""
    flat = targets.reshape(-1)
    return ids, flat, ((flat != 0) / np.count_nonzero(flat)).astype(np.float32)
