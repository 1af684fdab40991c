"""Chapter 10, continued: why greedy text repeats itself.

A trigram model predicts a word from the two before it. Its memory is those two words, and of such
pairs there are V²: so some pair must come again, at any temperature. What temperature zero adds is
that the text then goes on as before, for ever (derivations/22_repetition.md). Next: low rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from tinyattn import ops
from tinyattn.models.generate import next_ids
from tinyattn.tensor import Tensor


@dataclass(frozen=True)
class Trigram:
    """P(w_{t+2} | w_t, w_{t+1}) = softmax over w of β h(w_t, w_{t+1})·e(w).

    Shapes: queries h (V, V, I), one for each pair; embeddings e (V, I)
    Source: sheet 003, problem 4, where h is any network: a table is one, and says all it could say
    """

    queries: Tensor
    embeddings: Tensor

    def probabilities(self, first: int, second: int, beta: float = 1.0) -> Tensor:
        """The next word's, (V,), at inverse temperature β."""
        return ops.softmax(self.scores(first, second) * beta)

    def scores(self, first: int, second: int) -> Tensor:
        """h(w_t, w_{t+1})·e(w) for every w: (V,)."""
        return ops.matmul(self.embeddings, self.queries[first, second])

    def text(
        self, first: int, second: int, *, temperature: float = 0.0, seed: int = 0
    ) -> Iterator[int]:
        """Two words and what follows, without end; temperature is 1/β.

        Temperature 0 takes the likeliest word; of ties it takes the first, which the limit of small
        temperatures does not: that draws from them.
        """
        rng = np.random.default_rng(seed)
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
        """The two words and `count` more."""
        return [*islice(self.text(first, second, temperature=temperature, seed=seed), count + 2)]


def table_model(follows: np.ndarray, embeddings: np.ndarray, device: str = "cpu") -> Trigram:
    """The model that is surest of the word that a table gives.

    Embeddings may be any that have one length and differ: e·e > e·e' then, so that two numbers for
    each word are enough.

    Shapes: follows (V, V) word ids, embeddings (V, I)
    Source: derivations/22_repetition.md
    """
    return Trigram(Tensor(embeddings[follows], device=device), Tensor(embeddings, device=device))


def counted_model(
    text: np.ndarray, words: int, *, smoothing: float = 0.01, device: str = "cpu"
) -> Trigram:
    """The model that has learned a text: how often each word came after each pair.

    Forward: P(w | a, b) = (n(a, b, w) + ε)/Σ_w (n(a, b, w) + ε) at β = 1, n what was counted, ε =
             smoothing; h(a, b) = ln P, and embeddings are the rows of the identity
    Shapes:  text (N,) of ids below V = words
    Raises:  ValueError if smoothing is not above 0: ln 0 is no score
    Source:  Shannon 1948, section 3; Lidstone 1920 for ε
    """
    if not smoothing > 0:
        raise ValueError(f"counted_model: smoothing must be above 0; got {smoothing}")
    counts = np.full((words, words, words), smoothing)
    np.add.at(counts, (text[:-2], text[1:-1], text[2:]), 1)
    logs = np.log(counts / counts.sum(axis=-1, keepdims=True))
    return Trigram(Tensor(logs, device=device), Tensor(np.eye(words), device=device))


def de_bruijn_table(words: int) -> np.ndarray:
    """Which word follows each pair, so that all V² pairs come before one comes again.

    Pairs are the edges of a graph of V words, so this is a walk that uses each edge once and
    ends where it began.

    Shapes: (V, V), V = words
    Source: de Bruijn 1946; the walk as in Hierholzer and Wiener 1873
    """
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
    """
    seen: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(pairwise(words)):
        if pair in seen:
            return seen[pair], i - seen[pair]
        seen[pair] = i
    return None
