"""Chapter 7: where checks get their numbers.

A check is given a laboratory, with a device and a seeded generator, and numbers from a domain,
such as n between 2 and 9. The command line draws these; in the tests Hypothesis finds the worst.
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
from tinyattn.theory.queries import orthonormal

HIDDEN = 1000
"""How many keys of a sequence are hidden from a query: it takes `ops.attention` two tiles."""

Block = TypeVar("Block", bound=AttentionBlock)


@dataclass(frozen=True)
class Lab:
    """A place to try things out: tensors of float64 on a device, and seeded random numbers."""

    rng: np.random.Generator
    device: str = "cpu"

    def tensor(self, values: Any) -> Tensor:
        """These numbers, on the device."""
        return Tensor(np.asarray(values, dtype=np.float64), device=self.device)

    def normal(self, *shape: int) -> Tensor:
        """Independent standard normal numbers."""
        return self.tensor(self.rng.standard_normal(shape))

    def orthonormal(self, n: int, extra: int | None = None) -> Tensor:
        """n orthonormal rows, in a space with up to three dimensions more: (n, D)."""
        more = int(self.rng.integers(4)) if extra is None else extra
        return self.tensor(orthonormal(self.rng, n, n + more))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The answer and the weights of a query, from the middle of one sequence; see `answer`.

        Shapes: query (D,), keys (n, D), values (n, E) -> (E,), (n,)
        """
        n, E = values.shape
        read = self.answer(query, keys, ops.concatenate([values, values.xp.eye(n)], axis=1))
        return read[:E], read[E:]

    def weights(self, scores: Any, first: int | None = None) -> Tensor:
        """The weights of keys with these scores, or those of the first few of very many keys.

        Shapes: (n,) -> (n,), or (first,)
        """
        column = (scores if isinstance(scores, Tensor) else self.tensor(scores)).reshape(-1, 1)
        n = column.shape[0]
        # The query asks for the first number of a key; the other three are random.
        keys = ops.concatenate([column, self.normal(n, 3)], axis=1)
        return self.answer(self.tensor([1, 0, 0, 0]), keys, self.tensor(np.eye(n, first or n)))

    def answer(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """What a query reads as it would in a model: in the middle of a long sequence.

        The keys stand at random places, the last of them at the query's own. All other keys are
        hidden: those before the query by a mask, the one behind it by being later. A hidden key is
        a copy of the query, and its value is large, so that attention to it would show. There are
        more keys than `ops.attention` takes in one tile, and as in a model it divides scores by
        √D, for which the query is √D times as long.

        Shapes: query (D,), keys (n, D), values (n, E) -> (E,)
        """
        (n, D), xp = keys.shape, keys.xp
        order = np.minimum(self.rng.permutation(n + HIDDEN), n)  # n is a hidden one
        last = np.flatnonzero(order < n)[-1]
        order[[last, -1]] = order[[-1, last]]  # to the query's own place
        order = np.append(order, n)  # the later one
        allowed = xp.asarray((order < n) | (np.arange(len(order)) == n + HIDDEN))
        some_keys = ops.concatenate([keys, query[None]])
        some_values = ops.concatenate([values, xp.full((1, values.shape[1]), 1e3)])
        queries = some_keys[[n, n]] * math.sqrt(D)  # at the last two places
        return ops.attention(queries, some_keys[order], some_values[order], allowed, causal=True)[0]

    def block(
        self,
        kind: type[Block],
        width: int,
        heads: int,
        *,
        longest: int,
        bias: float = 1.0,
        **options: Any,
    ) -> Block:
        """A block on the device with the parameters of `randomize`, which see for `bias`."""
        block = kind(width, heads, longest=longest, rng=self.rng, **options)
        randomize(block, self.rng, bias=bias)
        block.to(self.device)
        return block


def by_hand(scores: Any) -> np.ndarray:
    """The softmax of scores (.., n) from exponentials, for checks to compare with."""
    s = np.asarray(scores, dtype=np.float64)
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    weights: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return weights


def length(vector: Tensor) -> float:
    """|v|."""
    return float(np.linalg.norm(vector.numpy()))


@dataclass(frozen=True)
class Whole:
    """A whole number between two, both included."""

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        """One of them."""
        return int(rng.integers(self.low, self.high + 1))


@dataclass(frozen=True)
class Real:
    """A number between two; both ends are drawn now and then."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """One of them."""
        place = rng.random()
        inside = self.low + (self.high - self.low) * (place - 0.1) / 0.8
        return float(np.clip(inside, self.low, self.high))


@dataclass(frozen=True)
class Reals:
    """A tuple of `least` to `most` numbers between two."""

    low: float
    high: float
    least: int
    most: int

    def draw(self, rng: np.random.Generator) -> tuple[float, ...]:
        """One of them."""
        length = int(rng.integers(self.least, self.most + 1))
        return tuple(Real(self.low, self.high).draw(rng) for _ in range(length))


@dataclass(frozen=True)
class Wholes:
    """A tuple of `least` to `most` whole numbers between two, both included."""

    low: int
    high: int
    least: int
    most: int

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """One of them."""
        length = int(rng.integers(self.least, self.most + 1))
        return tuple(Whole(self.low, self.high).draw(rng) for _ in range(length))


@dataclass(frozen=True)
class OneOf:
    """One of a few."""

    choices: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """One of them."""
        return self.choices[int(rng.integers(len(self.choices)))]


Domain = dict[str, Whole | Real | Reals | Wholes | OneOf]
"""What a check's arguments may be."""
