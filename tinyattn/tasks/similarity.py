"""Chapter 6: a permutation test for answers that follow a similar name.

Asked about a new person, a model may answer with the birthplace of a training person whose name is
similar. Then its wrong answers equal the birthplace of the nearest name more often than by chance.
This file defines the nearest name, and computes how many such answers chance would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyattn.rng import generator

SHUFFLES = 1999
"""Number of random permutations for a p-value, which is then a multiple of 1/2000."""


@dataclass(frozen=True)
class Probe:
    """How many answers equal the birthplace of the most similar training name.

    The chance level comes from random permutations of the birthplaces among the training names.

    Args:
        total: number of answers.
        hits: answers that equal the birthplace of the most similar name.
        chance: mean number of hits over the permutations.
        low, high: range that contains 95 % of the permutations.
        p: fraction of permutations with at least as many hits as observed.
    """

    total: int
    hits: float  # a tie between names counts as a fraction
    chance: float
    low: float
    high: float
    p: float


def nearest(questions: Sequence[str], known: Sequence[str]) -> list[np.ndarray]:
    """For each question, the indices of the known questions that are most similar to it.

    Similarity is the Dice coefficient of the sets of trigrams (three successive characters): twice
    the number of common trigrams, over the sum of the sizes. The beginning and the end that all
    questions share are removed, so names are compared. Of equally similar questions all are
    returned: all known ones, if a question has no trigram in common with any. A question is not
    compared with itself.

    Source: Angell and others 1983, who correct misspelt words by trigrams and this coefficient.
    """
    if not questions:
        return []
    names = _names([*questions, *known])
    asked, there = names[: len(questions)], names[len(questions) :]
    grams = [_trigrams(name) for name in there]
    where: dict[str, list[int]] = {}
    for i, gram_set in enumerate(grams):
        for gram in gram_set:
            where.setdefault(gram, []).append(i)
    sizes = np.array([len(gram_set) for gram_set in grams], dtype=int)
    found = []
    for name in asked:
        own = _trigrams(name)
        rows = np.array([i for gram in own for i in where.get(gram, ())], dtype=int)
        common = np.bincount(rows, minlength=len(there))
        similarity = 2 * common / np.maximum(sizes + len(own), 1)  # equal fractions, equal floats
        others = np.array([other != name for other in there], dtype=bool)
        best = similarity[others].max(initial=0)
        found.append(np.flatnonzero(others & (similarity == best)))
    return found


def _names(questions: Sequence[str]) -> list[str]:
    """The part in which questions differ: without the beginning and the end that all share."""
    start = _shared_start(questions)
    rest = [question[start:] for question in questions]
    end = _shared_start([text[::-1] for text in rest])
    return [text[: len(text) - end] for text in rest]


def _shared_start(texts: Sequence[str]) -> int:
    """The number of characters at the beginning that are the same in all strings."""
    first, last = min(texts), max(texts)  # in alphabetical order: what these two share, all share
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
                len(first))  # fmt: skip


def _trigrams(name: str) -> set[str]:
    """The trigrams of a name with a space at both ends, so that first and last letters matter."""
    padded = f" {name} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def probe(
    answers: Sequence[str], near: Sequence[np.ndarray], homes: Sequence[str], *, seed: int = 0
) -> Probe:
    """Count the answers that equal the birthplace of their nearest training name, and test that.

    If several names are nearest, the answer counts as the fraction of them with this birthplace:
    the mean for one of them, chosen at random.

    Null hypothesis: the answers are independent of the pairing of names and places in training. So
    the places are permuted among the training names, SHUFFLES times; answers and nearest names
    stay. The mean over all permutations is exact, since each name gets each place in proportion to
    its frequency. The observed pairing counts as one permutation, hence p is never 0.

    Args:
        answers: the answers to test.
        near: for each answer, indices into `homes`; an answer without any is left out.
        homes: the places of the training pairs.
        seed: seed of the permutations.
    Raises: ValueError unless each answer has an entry in `near`, with indices below len(homes).
    Source: Phipson and Smyth 2010 for p.
    """
    _check_near(answers, near, homes)
    compared = [(answer, rows) for answer, rows in zip(answers, near, strict=True) if len(rows)]
    column_of = {place: k for k, place in enumerate(sorted(set(homes)))}
    home_N = np.array([column_of[place] for place in homes], dtype=int)
    weight_NM = np.zeros((len(homes), len(column_of)))  # what counts if name n has place m
    for answer, rows in compared:
        if answer in column_of:
            weight_NM[rows, column_of[answer]] += 1 / len(rows)
    used = np.flatnonzero(weight_NM.any(axis=1))
    if not len(used):
        return Probe(len(compared), 0.0, 0.0, 0.0, 0.0, 1.0)
    hits = weight_NM[used, home_N[used]].sum().round(9)  # rounding errors of thirds
    share_M = np.bincount(home_N, minlength=len(column_of)) / len(homes)
    chance = (weight_NM.sum(axis=0) @ share_M).round(9)
    rng = generator(seed)
    permuted = np.array([  # by sorting, since NumPy may change how it shuffles
        weight_NM[used, home_N[np.argsort(rng.random(len(homes)))[used]]].sum()
        for _ in range(SHUFFLES)
    ]).round(9)  # fmt: skip
    low, high = np.quantile(permuted, [0.025, 0.975], method="inverted_cdf")
    p = (1 + np.count_nonzero(permuted >= hits)) / (1 + SHUFFLES)
    return Probe(len(compared), float(hits), float(chance), float(low), float(high), p)


def _check_near(answers: Sequence[str], near: Sequence[np.ndarray], homes: Sequence[str]) -> None:
    """Raises: ValueError unless each answer has an entry in `near`, with valid indices."""
    if len(answers) != len(near):
        raise ValueError(
            f"probe: near must have an entry for each of {len(answers)} answers; got {len(near)}"
        )
    used = np.concatenate([np.zeros(0, dtype=int), *near])
    if used.size and (used.min() < 0 or used.max() >= len(homes)):
        raise ValueError(
            f"probe: near must contain indices of the {len(homes)} homes; "
            f"got {used.min()} to {used.max()}"
        )
