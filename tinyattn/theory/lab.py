"""Chapter 7: the random inputs of the checks.

A check is given a laboratory (a device and a seeded random generator) and arguments from a domain,
such as n from 2 to 9. `judge` draws them; in the tests Hypothesis searches for the worst ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tinyattn import ops
from tinyattn.attention import AttentionBlock
from tinyattn.attention.influence import randomize
from tinyattn.tensor import Tensor
from tinyattn.theory.conventions import OURS, Conventions
from tinyattn.theory.queries import orthonormal

Block = TypeVar("Block", bound=AttentionBlock)


@dataclass(frozen=True)
class Lab:
    """Makes the inputs of a check: float64 tensors on a device, and seeded random numbers."""

    rng: np.random.Generator
    device: str = "cpu"
    conventions: Conventions = OURS
    masked: int = 1000
    """Of `output`: how many keys are masked; `ops.attention` needs two tiles for so many."""

    def can(self, *features: str) -> bool:
        """Whether the attention under test supports these features."""
        return self.conventions.supports.issuperset(features)

    def tensor(self, values: Any) -> Tensor:
        """These values as float64, on the device."""
        return Tensor(np.asarray(values, dtype=np.float64), device=self.device)

    def leaf(self, values: Any) -> Tensor:
        """The same, as a tensor that requires a gradient."""
        return Tensor(self.tensor(values).data, requires_grad=True)

    def normal(self, *shape: int) -> Tensor:
        """Independent standard normal elements."""
        return self.tensor(self.rng.standard_normal(shape))

    def orthonormal(self, n: int, extra: int | None = None) -> Tensor:
        """n random orthonormal rows, (n, D); D = n + extra, by default n to n + 3 at random."""
        more = int(self.rng.integers(4)) if extra is None else extra
        return self.tensor(orthonormal(self.rng, n, n + more))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The output and the weights of one query among other positions; see `output`.

        Shapes: query (D,), keys (n, D), values (n, E) -> (E,), (n,)
        """
        n, E = values.shape
        output = self.output(query, keys, ops.concatenate([values, values.xp.eye(n)], axis=1))
        return output[:E], output[E:]

    def weights(self, scores: Any, first: int | None = None) -> Tensor:
        """The weights of keys with these scores, or only those of the first keys.

        Shapes: (n,) -> (n,), or (first,)
        """
        column = (scores if isinstance(scores, Tensor) else self.tensor(scores)).reshape(-1, 1)
        n = column.shape[0]
        # The score of a key is its first element; the other three are random.
        keys = ops.concatenate([column, self.normal(n, 3)], axis=1)
        return self.output(self.tensor([1, 0, 0, 0]), keys, self.tensor(np.eye(n, first or n)))

    def output(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The output of one query as in a model: in the middle of a long sequence.

        The keys are at random positions, the last of them at the query's own. All other keys are
        masked: those before the query by an attention mask, the one after it by causality. A masked
        key is a copy of the query, and its value is large, so attention to it would be noticed.
        There are more keys than one tile of `ops.attention` takes. As in a model, the operation
        divides the scores by √D; so the query is multiplied by √D before. An attention without
        masks gets the keys alone.

        Shapes: query (D,), keys (n, D), values (n, E) -> (E,)
        """
        (n, D), xp = keys.shape, keys.xp
        if not self.can("mask", "rectangular"):
            copies = 1 if self.can("rectangular") else n
            queries = (query * math.sqrt(D)).broadcast_to((copies, D))
            return ops.attention(queries, keys, values)[0]
        order = np.minimum(self.rng.permutation(n + self.masked), n)  # n is a masked key
        last = np.flatnonzero(order < n)[-1]
        order[[last, -1]] = order[[-1, last]]  # to the query's own position
        order = np.append(order, n)  # the later key
        allowed = xp.asarray((order < n) | (np.arange(len(order)) == n + self.masked))
        some_keys = ops.concatenate([keys, query[None]])
        some_values = ops.concatenate([values, xp.full((1, values.shape[1]), 1e3)])
        queries = some_keys[[n, n]] * math.sqrt(D)  # at the last two positions
        causal = self.can("causal") and self.conventions.causal_from == "end"
        if not causal:
            allowed = allowed & xp.tri(2, len(order), len(order) - 2, dtype=bool)
        y = ops.attention(queries, some_keys[order], some_values[order], allowed, causal=causal)
        return y[0]

    def block(
        self,
        block_class: type[Block],
        width: int,
        heads: int,
        *,
        max_length: int,
        bias: float = 1.0,
        **options: Any,
    ) -> Block:
        """A block on the device with random parameters; `randomize` explains `bias`."""
        block = block_class(width, heads, max_length=max_length, rng=self.rng, **options)
        randomize(block, self.rng, bias=bias)
        block.to(self.device)
        return block


def by_hand(scores: Any, allowed: Any = True) -> np.ndarray:
    """The softmax of scores (.., n), computed from exponentials, for comparison.

    A key that is not allowed has the weight 0, also if no key is allowed.
    """
    s = np.where(allowed, np.asarray(scores, dtype=np.float64), -np.inf)
    largest = s.max(axis=-1, keepdims=True)
    powers = np.exp(s - np.where(largest == -np.inf, 0, largest))
    total = powers.sum(axis=-1, keepdims=True)
    weights: np.ndarray = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return weights


def length(vector: Tensor) -> float:
    """The norm |v| of a vector."""
    return float(np.linalg.norm(vector.numpy()))


@dataclass(frozen=True)
class Whole:
    """An integer from `low` to `high`, both included."""

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one."""
        return int(rng.integers(self.low, self.high + 1))


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`; each end is drawn with probability 0.1."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one."""
        place = rng.random()
        inside = self.low + (self.high - self.low) * (place - 0.1) / 0.8
        return float(np.clip(inside, self.low, self.high))


@dataclass(frozen=True)
class Reals:
    """A tuple of `least` to `most` numbers, each from `low` to `high`."""

    low: float
    high: float
    least: int
    most: int

    def draw(self, rng: np.random.Generator) -> tuple[float, ...]:
        """Draw one."""
        length = int(rng.integers(self.least, self.most + 1))
        return tuple(Real(self.low, self.high).draw(rng) for _ in range(length))


@dataclass(frozen=True)
class Wholes:
    """A tuple of `least` to `most` integers, each from `low` to `high`."""

    low: int
    high: int
    least: int
    most: int

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw one."""
        length = int(rng.integers(self.least, self.most + 1))
        return tuple(Whole(self.low, self.high).draw(rng) for _ in range(length))


@dataclass(frozen=True)
class OneOf:
    """One of several choices."""

    choices: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one."""
        return self.choices[int(rng.integers(len(self.choices)))]


Values = Whole | Real | Reals | Wholes | OneOf
"""The values that an argument of a check may have."""
Domain = dict[str, Values]
"""Those of each argument."""
