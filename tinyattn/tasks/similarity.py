"""Chapter 6: answers that go by the name.

Asked about somebody new, a model may think of somebody it was taught about whose name is similar,
and give that person's place. If so, its wrong answers are the birthplaces of the nearest names more
often than chance would have it. What follows says what is near, and how much is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyattn.noise import generator

SHUFFLES = 1999
"""Random reassignments behind a p-value, which is then a multiple of 1/2000."""


@dataclass(frozen=True)
class Probe:
    """How many of some answers are the birthplace of the most similar training name.

    `chance` is how many would be on average if training names got their places anew at random,
    `low` to `high` holds 95 % of such reassignments, and in a share `p` there are as many as
    `hits`, or more.
    """

    total: int
    hits: float  # a tie between names counts in part
    chance: float
    low: float
    high: float
    p: float


def nearest(questions: Sequence[str], known: Sequence[str]) -> list[np.ndarray]:
    """For each question, which of the known ones are most similar to it, apart from itself.

    Similarity is the Dice coefficient of their sets of three successive characters: twice the
    number in common, over the sum of their sizes. What all questions begin and end with is left
    out, so names are compared. If several are most similar, all are returned; so a question that
    has nothing in common with any is as near to each.

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
    """What questions differ in: each without the beginning and the end that all of them share."""
    start = _shared_start(questions)
    rest = [question[start:] for question in questions]
    end = _shared_start([text[::-1] for text in rest])
    return [text[: len(text) - end] for text in rest]


def _shared_start(texts: Sequence[str]) -> int:
    """How many characters at the beginning are the same in all texts."""
    first, last = min(texts), max(texts)  # in the alphabet: what these two share, all do
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
                len(first))  # fmt: skip


def _trigrams(name: str) -> set[str]:
    """With a space at either end, so that the first and the last letter count as such."""
    padded = f" {name} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def probe(
    answers: Sequence[str], near: Sequence[np.ndarray], homes: Sequence[str], *, seed: int = 0
) -> Probe:
    """How many answers are the birthplace of their nearest training name.

    Where several names are nearest, the answer counts as the share of them that has it as its
    birthplace: what one of them, drawn at random, would give on average.

    If names and places in training had nothing to do with each other, their pairing could be any.
    So the places are dealt out to the training names anew, SHUFFLES times, while answers and
    neighbours stay. The mean of all such deals is exact: each name gets a place as often as it
    occurs. The observed deal counts as one of them, hence p is never 0.

    Raises: ValueError unless there is a `near` for each answer, of indices below len(homes).
    Source: Phipson and Smyth 2010 for p.

    Args:
        near: for each answer, indices into `homes`; an answer that has none is left out.
        homes: the places of the training pairs.
    """
    _check_near(answers, near, homes)
    compared = [(answer, rows) for answer, rows in zip(answers, near, strict=True) if len(rows)]
    column_of = {place: k for k, place in enumerate(sorted(set(homes)))}
    home_N = np.array([column_of[place] for place in homes], dtype=int)
    weight_NM = np.zeros((len(homes), len(column_of)))  # what a hit of name n with place m counts
    for answer, rows in compared:
        if answer in column_of:
            weight_NM[rows, column_of[answer]] += 1 / len(rows)
    used = np.flatnonzero(weight_NM.any(axis=1))
    if not len(used):
        return Probe(len(compared), 0.0, 0.0, 0.0, 0.0, 1.0)
    hits = weight_NM[used, home_N[used]].sum().round(9)  # sums of thirds differ in last bits
    share_M = np.bincount(home_N, minlength=len(column_of)) / len(homes)
    chance = (weight_NM.sum(axis=0) @ share_M).round(9)
    rng = generator(seed)
    dealt = np.array([  # by sorting, since NumPy may change how it shuffles
        weight_NM[used, home_N[np.argsort(rng.random(len(homes)))[used]]].sum()
        for _ in range(SHUFFLES)
    ]).round(9)  # fmt: skip
    low, high = np.quantile(dealt, [0.025, 0.975], method="inverted_cdf")
    p = (1 + np.count_nonzero(dealt >= hits)) / (1 + SHUFFLES)
    return Probe(len(compared), float(hits), float(chance), float(low), float(high), p)


def _check_near(answers: Sequence[str], near: Sequence[np.ndarray], homes: Sequence[str]) -> None:
    """Raises: ValueError unless there is a `near` for each answer, of indices below len(homes)."""
    if len(answers) != len(near):
        raise ValueError(
            f"probe: near must have an entry for each of {len(answers)} answers; got {len(near)}"
        )
    used = np.concatenate([np.zeros(0, dtype=int), *near])
    if used.size and (used.min() < 0 or used.max() >= len(homes)):
        raise ValueError(
            f"probe: near must hold indices of the {len(homes)} homes; "
            f"got {used.min()} to {used.max()}"
        )
