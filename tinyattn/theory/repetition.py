"""Chapter 7: why greedy text repeats itself.

A trigram model predicts a word from the two before it. Its memory is those two words, and of such
pairs there are V²: so some pair must come again, at any temperature. What temperature zero adds is
that the text then goes on as before, for ever (derivations/22_repetition.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.models.generate import next_ids
from tinyattn.noise import generator
from tinyattn.tensor import Tensor

ROUNDING = 1e-6
"""By how much lengths that should be equal may differ: what float32 does to them."""


@dataclass(frozen=True)
class Trigram:
    """P(w_{t+2} | w_t, w_{t+1}) = softmax over w of β h(w_t, w_{t+1})·e(w).

    Shapes:  queries h (V, V, I), one for each pair; embeddings e (V, I)
    Raises:  ValueError for other shapes, and in all methods for a word that is not below V
    Source:  sheet 003, problem 4, where h is any network: a table is one, and says all it could say
    """

    queries: Tensor
    embeddings: Tensor

    def __post_init__(self) -> None:
        e = self.embeddings.shape
        if len(e) != 2 or self.queries.shape != (e[0], *e):
            raise ValueError("Trigram: queries and embeddings must be (V, V, I) and (V, I); "
                             f"got {self.queries.shape} and {e}")  # fmt: skip

    def probabilities(self, first: int, second: int, beta: float = 1.0) -> Tensor:
        """The next word's, (V,), at inverse temperature β."""
        return ops.softmax(self.scores(first, second) * beta)

    def scores(self, first: int, second: int) -> Tensor:
        """h(w_t, w_{t+1})·e(w) for every w: (V,)."""
        _check_words("Trigram", [first, second], self.embeddings.shape[0])
        return ops.matmul(self.embeddings, self.queries[first, second])

    def text(
        self, first: int, second: int, *, temperature: float = 0.0, seed: int = 0
    ) -> Iterator[int]:
        """Two words and what follows, without end; temperature is 1/β.

        Temperature 0 takes the likeliest word; of ties it takes the first, which the limit of small
        temperatures does not: that draws from them.
        """
        rng = generator(seed)
        yield first
        yield second
        while True:
            scores = self.scores(first, second).numpy()[None]
            drawn = next_ids(scores, temperature=temperature, rng=rng)
            first, second = second, int(drawn[0])
            yield second

    def write(
        self, first: int, second: int, count: int, *, temperature: float = 0.0, seed: int = 0
    ) -> list[int]:
        """The two words and `count` more. Raises: ValueError for a count below 0."""
        if count < 0:
            raise ValueError(f"Trigram.write: count must be at least 0; got {count}")
        return [*islice(self.text(first, second, temperature=temperature, seed=seed), count + 2)]


def table_model(follows: np.ndarray, embeddings: np.ndarray, device: str = "cpu") -> Trigram:
    """The model that is surest of the word that a table gives.

    Embeddings may be any that have one length and differ: e·e > e·e' then, so that two numbers for
    each word are enough.

    Shapes:  follows (V, V) word ids, embeddings (V, I)
    Raises:  ValueError for other shapes, an id that is not below V, or embeddings that do not have
             one length, or are not all different: their model would ignore the table
    Source:  derivations/22_repetition.md
    """
    if embeddings.ndim != 2 or follows.shape != (len(embeddings), len(embeddings)):
        raise ValueError("table_model: follows and embeddings must be (V, V) and (V, I); "
                         f"got {follows.shape} and {embeddings.shape}")  # fmt: skip
    _check_words("table_model", follows, len(embeddings))
    lengths = np.linalg.norm(embeddings, axis=1)
    different = len(np.unique(embeddings, axis=0))
    if np.ptp(lengths) > ROUNDING * lengths.max() or different < len(embeddings):
        raise ValueError("table_model: embeddings must have one length, and all must differ; got "
                         f"lengths from {lengths.min():.6g} to {lengths.max():.6g}, and "
                         f"{different} different of {len(embeddings)}")  # fmt: skip
    return Trigram(Tensor(embeddings[follows], device=device), Tensor(embeddings, device=device))


def counted_model(
    text: np.ndarray, words: int, *, smoothing: float = 0.01, device: str = "cpu"
) -> Trigram:
    """The model that has learned a text: how often each word came after each pair.

    Forward: P(w | a, b) = (n(a, b, w) + ε)/Σ_w (n(a, b, w) + ε) at β = 1, n what was counted, ε =
             smoothing; h(a, b) = ln P, and embeddings are the rows of the identity
    Shapes:  text (N,) of ids below V = words
    Raises:  ValueError if smoothing is not above 0, for ln 0 is no score, or if the text is not one
             row of such ids
    Source:  Shannon 1948, section 3; Lidstone 1920 for ε
    """
    if not smoothing > 0:
        raise ValueError(f"counted_model: smoothing must be above 0; got {smoothing}")
    if np.ndim(text) != 1:
        raise ValueError(f"counted_model: text must be one row of ids, (N,); got {np.shape(text)}")
    _check_words("counted_model", text, words)
    counts = np.full((words, words, words), smoothing)
    np.add.at(counts, (text[:-2], text[1:-1], text[2:]), 1)
    logs = np.log(counts / counts.sum(axis=-1, keepdims=True))
    return Trigram(Tensor(logs, device=device), Tensor(np.eye(words), device=device))


def de_bruijn_table(words: int) -> np.ndarray:
    """Which word follows each pair, so that all V² pairs come before one comes again.

    Pairs are the edges of a graph of V words, so this is a walk that uses each edge once and
    ends where it began.

    Shapes:  (V, V), V = words
    Raises:  ValueError for no words
    Source:  de Bruijn 1946; the walk as in Hierholzer and Wiener 1873
    """
    if words < 1:
        raise ValueError(f"de_bruijn_table: words must be at least 1; got {words}")
    follows = np.zeros((words, words), int)
    stack, cycle = [0], []
    left = [list(range(words)) for _ in range(words)]
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            cycle.append(stack.pop())
    circuit = cycle[::-1][:-1]
    for i, word in enumerate(circuit):
        second, third = circuit[(i + 1) % len(circuit)], circuit[(i + 2) % len(circuit)]
        follows[word, second] = third
    return follows


def first_repeat(words: Iterable[int]) -> int | None:
    """How many words there are up to the end of the first pair that was there before.

    At most V² + 2: there are V² pairs, and a text of m words has m - 1.

    Source:  derivations/22_repetition.md
    """
    seen: set[tuple[int, int]] = set()
    for i, pair in enumerate(pairwise(words)):
        if pair in seen:
            return i + 2
        seen.add(pair)
    return None


def loop(words: Iterable[int]) -> tuple[int, int] | None:
    """Preperiod and period, in pairs, of a text in which equal pairs have equal successors.

    None if no pair comes twice. Preperiod + period ≤ V².

    Source:  derivations/22_repetition.md
    """
    seen: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(pairwise(words)):
        if pair in seen:
            return seen[pair], i - seen[pair]
        seen[pair] = i
    return None


def _check_words(where: str, ids: Any, words: int) -> None:
    """Raises: ValueError for an id that is no whole number from 0 to V - 1: others would wrap."""
    found = np.asarray(ids)
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= words):
        raise ValueError(f"{where}: word ids must be whole numbers from 0 to {words - 1}; "
                         f"got {found.min()} to {found.max()}")  # fmt: skip
