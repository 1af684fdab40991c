"""Chapter 7: answer sheet 003, problem 4: repetition in text at low temperature.

A bigram must occur again at any temperature; a loop needs equal next words for equal bigrams.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, OPEN, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, OneOf, Real, Whole, Wholes, by_hand
from tinyattn.theory.law import check
from tinyattn.theory.repetition import (
    Trigram,
    de_bruijn_table,
    first_repeat,
    loop,
    table_model,
)


def random_model(lab: Lab, V: int, ties: bool = False) -> Trigram:
    """A model with random scores; with `ties` they are small integers, many of them equal."""
    queries, embeddings = lab.normal(V, V, 3), lab.normal(V, 3)
    if ties:
        queries = lab.tensor(lab.rng.integers(-1, 2, (V, V, 3)))
        embeddings = lab.tensor(lab.rng.integers(-1, 2, (V, 3)))
    return Trigram(queries, embeddings)


def model_of(lab: Lab, scores: tuple[float, ...]) -> Trigram:
    """The model with these scores for the next word, for all pairs of last words."""
    n = len(scores)
    return Trigram(lab.tensor(np.tile(scores, (n, n, 1))), lab.tensor(np.eye(n)))


def on_a_circle(V: int) -> np.ndarray:
    """Embeddings of two elements, all of norm 1."""
    angle = 2 * np.pi * np.arange(V) / V
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


# What is true --------------------------------------------------------------------------------


@check(Trigram, V=Whole(1, 6))
def predicts_the_next(lab: Lab, V: int) -> Finding:
    """P(w_{t+2} | w_t, w_{t+1}): a distribution for each pair; greedy text takes its mode."""
    model = random_model(lab, V)
    scores = np.einsum("abi,wi->abw", model.queries.numpy(), model.embeddings.numpy())
    first, second, third = model.generate(0, V - 1, 1)
    p = model.probabilities(first, second).numpy()
    return every(
        equal("P", p, by_hand(scores[0, V - 1])),
        equal("P of the third word", p[third], p.max()),
    )


@check(Trigram, scores=Wholes(-5, 5, 1, 8), beta=Real(0, 3))
def zero_and_infinity(lab: Lab, scores: tuple[int, ...], beta: float) -> Finding:
    """β is an inverse temperature: at zero temperature, β → ∞, P is uniform over the best words.

    At β = 0 it is uniform over all words: |P - 1/n| ≤ (e^βR - 1)/n, R = max s - min s. Any other
    word has P ≤ e^-βG, where G is the distance of its score from the best.
    """
    s, n = np.array(scores), len(scores)  # some are equal; other gaps are at least 1
    model, best = model_of(lab, tuple(s)), s == s.max()
    p = model.probabilities(0, 0, beta).numpy()
    return every(
        equal("P at zero β", model.probabilities(0, 0, 0.0), np.full(n, 1 / n)),
        at_most("|P - 1/n|", np.abs(p - 1 / n), math.expm1(beta * (s.max() - s.min())) / n),
        at_most("P", p, np.exp(beta * (s - s.max()))),
        equal("P at β 50", model.probabilities(0, 0, 50.0), best / best.sum()),
    )


@check(first_repeat, de_bruijn_table, table_model, Trigram,
       V=Whole(1, 6), temperature=Real(0, 20))  # fmt: skip
def must_come_again(lab: Lab, V: int, temperature: float) -> Finding:
    """With V different words, a text of V² + 2 words contains a bigram twice, at any temperature.

    A de Bruijn table needs all of them. A softmax of embeddings with two elements can represent it.
    """
    most, model = V**2 + 2, random_model(lab, V)
    hot = first_repeat(model.generate(0, 0, V**2, temperature=temperature, seed=V))
    free = first_repeat(lab.rng.integers(V, size=most).tolist())
    longest = table_model(de_bruijn_table(V), on_a_circle(V), lab.device)
    return every(
        fact(hot is not None, f"again after {hot} words", f"no bigram twice in {most} words"),
        fact(free is not None, f"random words: after {free}", f"not in {most} random words"),
        equal("de Bruijn table: after", first_repeat(longest.stream(0, 0)), most),
        equal("its preperiod and period", loop(longest.stream(0, 0)), (0, V**2)),
    )


@check(loop, first_repeat, Trigram, V=Whole(1, 6), ties=OneOf((False, True)))
def goes_round(lab: Lab, V: int, ties: bool) -> Finding:
    """If the last two words determine the next, text is a loop from the first repeated pair on.

    Then preperiod + period ≤ V².
    """
    model, start = random_model(lab, V, ties), lab.rng.integers(V, size=2)
    text = model.generate(int(start[0]), int(start[1]), 3 * V**2)
    scores = model.queries.numpy() @ model.embeddings.numpy().T
    best = [int(scores[a, b].argmax()) for a, b in pairwise(text[:-1])]
    found = loop(text)
    assert found is not None
    before, period = found
    return every(
        fact(text[2:] == best, "the most probable words", "not the most probable words"),
        at_most("preperiod + period", before + period, V**2),
        fact(text[before:-period] == text[before + period :], "the text is a loop", "no loop"),
        equal("words to the first repeat", first_repeat(text), before + period + 2),
    )


@check(first_repeat, ops.attention, period=Whole(1, 40))
def squares_never_loop(lab: Lab, period: int) -> Finding:
    """Words that are 1 at square positions, else 0, follow from all words before, without a loop.

    A head with a query of 0 has the mean of all words so far as its output: of t words k are 1.
    The next word is 1 iff k² = t. After the square k² the next 1 is 2k + 1 positions later. So for
    all k from (period + 1)/2 on, there is a 1 that does not occur again a period later.
    """
    squares = [k * k for k in range((period + 1) // 2, (period + 1) // 2 + 10)]
    text = [int(math.isqrt(t) ** 2 == t) for t in range(squares[-1] + period + 9)]
    words = lab.tensor(text).reshape(-1, 1)
    means = ops.attention(words * 0, words * 0, words, causal=True).numpy()[:, 0]
    known = np.arange(1, len(text) + 1)  # the number of words before the next one
    following = np.round(known * means) ** 2 == known
    return every(
        equal("next words, from the mean of all before", following[:-1], text[1:]),
        equal("words to the first repeated bigram", first_repeat(text), 6),
        equal("1s with a 1 a period later", sum(text[t + period] for t in squares), 0),
    )


# What the sheets say -------------------------------------------------------------------------


def predicts_what_is_given(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """P(w_{t+1} | w_t, w_{t+1}) as printed is 1, as the word is given."""
    return equal("P", model_of(lab, scores).probabilities(0, 0)[0], 1.0)


def repeats_for_ever(lab: Lab, scores: tuple[float, ...], temperature: float) -> Finding:
    """At a temperature of nearly 0, text is a loop from the first repeated bigram."""
    text = model_of(lab, scores).generate(0, 0, 60, temperature=temperature)
    found = loop(text)
    assert found is not None
    before, period = found
    again = zip(text[before:], text[before + period :], strict=False)
    differ = [before + period + i for i, (a, b) in enumerate(again) if a != b]
    return fact(
        not differ,
        f"a loop of {period}",
        f"a bigram occurs again after {first_repeat(text)} words, but {len(differ)} of {len(text)} "
        "words differ from a loop",
    )


# fmt: off
CLAIMS = [
    Claim(
        "S003-4.1", "84", TYPO, of_question=True,
        says="the model is P(w_{t+1} | w_t, w_{t+1})",
        truth="P(w_{t+2} | w_t, w_{t+1}) is meant",
        check=predicts_the_next,
        literal=predicts_what_is_given, witness={"scores": (0.0, 0.0)},
    ),
    Claim(
        "S003-4.2", "84-86", TYPO, of_question=True,
        says="text is sampled at zero temperature, where β is a temperature parameter",
        check=zero_and_infinity,
        literal=zero_and_infinity.gives("P at zero β", (1, 0, 0)),
        witness={"scores": (3, 1, 0), "beta": 0.0},
    ),
    Claim(
        "S003-4.3", "88", TRUE,
        says="at some point a bigram must occur again",
        check=must_come_again,
    ),
    Claim(
        "S003-4.4", "88", CONDITIONAL,
        says="from then on the text is a loop",
        check=goes_round,
        literal=repeats_for_ever, witness={"scores": (0.0, 0.0), "temperature": 1e-9},
    ),
    Claim(
        "S003-4.5", "88", OPEN,
        says="the same happens with many transformers at low temperature",
        truth="it is no theorem, as they attend to the whole text: words that are 1 at square "
        "positions, else 0, follow from the mean of all words before, and never become a loop",
        check=squares_never_loop,
    ),
]
