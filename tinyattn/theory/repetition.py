"""Chapter 7: repetition in greedy generation.

A trigram model predicts a word from the two before it. There are V² pairs of words, so some pair
must occur again, at any temperature. At temperature 0 the text after the pair is then the same as
before, without end: a loop (derivations/22_repetition.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.models.generate import next_ids
from tinyattn.rng import generator
from tinyattn.tensor import Tensor

ROUNDING = 1e-6
"""The largest relative difference of equal norms: float32 rounds."""


@dataclass(frozen=True)
class Trigram:
    """P(w_{t+2} | w_t, w_{t+1}) = softmax over w of β h(w_t, w_{t+1})·e(w).

    Shapes:  queries h (V, V, I), one for each pair; embeddings e (V, I)
    Raises:  ValueError for other shapes, and in all methods for a word id outside 0..V-1
    Source:  answer sheet 003, problem 4, with any network h; a table can represent all of them
    """

    queries: Tensor
    embeddings: Tensor

    def __post_init__(self) -> None:
        e = self.embeddings.shape
        if len(e) != 2 or self.queries.shape != (e[0], *e):
            raise ValueError("Trigram: queries and embeddings must be (V, V, I) and (V, I); "
                             f"got {self.queries.shape} and {e}")  # fmt: skip

    def probabilities(self, first: int, second: int, beta: float = 1.0) -> Tensor:
        """The probabilities of the next word, (V,), at inverse temperature β."""
        return ops.softmax(self.scores(first, second) * beta)

    def scores(self, first: int, second: int) -> Tensor:
        """h(w_t, w_{t+1})·e(w) for every w: (V,)."""
        _check_words("Trigram", [first, second], self.embeddings.shape[0])
        return ops.matmul(self.embeddings, self.queries[first, second])

    def stream(
        self, first: int, second: int, *, temperature: float = 0.0, seed: int = 0
    ) -> Iterator[int]:
        """The two words and the words generated after them, without end; temperature is 1/β.

        Temperature 0 takes the most probable word, and of equal ones the first. The limit of small
        temperatures draws one of the equal ones instead.
        """
        rng = generator(seed)
        yield first
        yield second
        while True:
            scores = self.scores(first, second).numpy()[None]
            drawn = next_ids(scores, temperature=temperature, rng=rng)
            first, second = second, int(drawn[0])
            yield second

    def generate(
        self, first: int, second: int, count: int, *, temperature: float = 0.0, seed: int = 0
    ) -> list[int]:
        """The two words and `count` generated ones. Raises: ValueError for a count below 0."""
        if count < 0:
            raise ValueError(f"Trigram.generate: count must be at least 0; got {count}")
        return [*islice(self.stream(first, second, temperature=temperature, seed=seed), count + 2)]


def table_model(follows: np.ndarray, embeddings: np.ndarray, device: str = "cpu") -> Trigram:
    """The model whose most probable next word is given by a table.

    The embeddings must have equal norms and all be different: then e·e > e·e'. Two elements per
    embedding are enough.

    Shapes:  follows (V, V) word ids, embeddings (V, I)
    Raises:  ValueError for other shapes, an id outside 0..V-1, or embeddings of different norms or
             not all different: their model would not follow the table
    Source:  derivations/22_repetition.md
    """
    if embeddings.ndim != 2 or follows.shape != (len(embeddings), len(embeddings)):
        raise ValueError("table_model: follows and embeddings must be (V, V) and (V, I); "
                         f"got {follows.shape} and {embeddings.shape}")  # fmt: skip
    _check_words("table_model", follows, len(embeddings))
    lengths = np.linalg.norm(embeddings, axis=1)
    different = len(np.unique(embeddings, axis=0))
    if np.ptp(lengths) > ROUNDING * lengths.max() or different < len(embeddings):
        raise ValueError("table_model: embeddings must have equal norms, and differ; got "
                         f"norms from {lengths.min():.6g} to {lengths.max():.6g}, and "
                         f"{different} different of {len(embeddings)}")  # fmt: skip
    return Trigram(Tensor(embeddings[follows], device=device), Tensor(embeddings, device=device))


def counted_model(
    text: np.ndarray, words: int, *, smoothing: float = 0.01, device: str = "cpu"
) -> Trigram:
    """The model with the trigram frequencies of a text.

    Forward: P(w | a, b) = (n(a, b, w) + ε)/Σ_w (n(a, b, w) + ε) at β = 1, n the counts, ε =
             smoothing; h(a, b) = ln P, and embeddings are the rows of the identity matrix
    Shapes:  text (N,) of ids below V = words
    Raises:  ValueError if smoothing is not above 0 (ln 0 is not finite), or if the text is not one
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
    """The next word for each pair, such that all V² pairs occur before one occurs again.

    The pairs are the edges of a graph whose nodes are the V words. The table is an Eulerian cycle:
    a walk that uses each edge once and ends where it began.

    Shapes:  (V, V), V = words
    Raises:  ValueError for words below 1
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
    """The number of words up to the end of the first pair that occurred before; else None.

    At most V² + 2: there are V² different pairs, and a text of m words has m - 1 pairs.

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

    None if no pair occurs twice. Preperiod + period ≤ V².

    Source:  derivations/22_repetition.md
    """
    seen: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(pairwise(words)):
        if pair in seen:
            return seen[pair], i - seen[pair]
        seen[pair] = i
    return None


def _check_words(where: str, ids: Any, words: int) -> None:
    """Raises: ValueError for an id that is no integer from 0 to V - 1; NumPy accepts -1."""
    found = np.asarray(ids)
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= words):
        raise ValueError(f"{where}: word ids must be whole numbers from 0 to {words - 1}; "
                         f"got {found.min()} to {found.max()}")  # fmt: skip
