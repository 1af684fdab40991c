"""Chapter 7: sheet 003, problem 4. Why text at low temperature repeats itself.

A bigram must come again at any temperature; that the text then goes on as before takes more.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, OPEN, TRUE, TYPO, Claim
from tinyattn.theory.finding import NEARLY, Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, OneOf, Real, Whole, Wholes, by_hand
from tinyattn.theory.repetition import (
    Trigram,
    de_bruijn_table,
    first_repeat,
    loop,
    table_model,
)


def random_model(lab: Lab, V: int, ties: bool = False) -> Trigram:
    """Any scores; or small whole ones, of which many are equal."""
    queries, embeddings = lab.normal(V, V, 3), lab.normal(V, 3)
    if ties:
        queries = lab.tensor(lab.rng.integers(-1, 2, (V, V, 3)))
        embeddings = lab.tensor(lab.rng.integers(-1, 2, (V, 3)))
    return Trigram(queries, embeddings)


def model_of(lab: Lab, scores: tuple[float, ...]) -> Trigram:
    """These scores for the next word, whatever the last two are."""
    n = len(scores)
    return Trigram(lab.tensor(np.tile(scores, (n, n, 1))), lab.tensor(np.eye(n)))


def on_a_circle(V: int) -> np.ndarray:
    """Embeddings of two numbers, all of length 1."""
    angle = 2 * np.pi * np.arange(V) / V
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


# What is true --------------------------------------------------------------------------------


def predicts_the_next(lab: Lab, V: int) -> Finding:
    """A distribution of the third word for each pair; greedy text takes its largest."""
    model = random_model(lab, V)
    scores = np.einsum("abi,wi->abw", model.queries.numpy(), model.embeddings.numpy())
    first, second, third = model.write(0, V - 1, 1)
    p = model.probabilities(first, second).numpy()
    return every(
        equal("P", p, by_hand(scores[0, V - 1])),
        equal("P of the third word", p[third], p.max()),
    )


def zero_and_infinity(lab: Lab, scores: tuple[int, ...], beta: float) -> Finding:
    """Near β = 0 all words are equally likely, and for β → ∞ the best ones, which may be several.

    |p - 1/n| ≤ (e^βR - 1)/n with R = max s - min s; far out, p of the rest ≤ e^(-β gap).
    """
    s, n = np.array(scores), len(scores)  # some are equal, and gaps are 1 at least
    model, best = model_of(lab, tuple(s)), s == s.max()
    near_zero = np.abs(model.probabilities(0, 0, beta).numpy() - 1 / n)
    return every(
        equal("P at β = 0", model.probabilities(0, 0, 0.0), np.full(n, 1 / n)),
        at_most("distance from 1/n", near_zero, math.expm1(beta * (s.max() - s.min())) / n),
        equal("P at β = 50", model.probabilities(0, 0, 50.0), best / best.sum()),
    )


def must_come_again(lab: Lab, V: int, temperature: float) -> Finding:
    """V² + 2 words hold a bigram twice; the de Bruijn table needs all of them, in 2 dimensions."""
    most, model = V**2 + 2, random_model(lab, V)
    hot = first_repeat(model.write(0, 0, V**2, temperature=temperature, seed=V))
    free = first_repeat(lab.rng.integers(V, size=most).tolist())
    longest = table_model(de_bruijn_table(V), on_a_circle(V), lab.device)
    return every(
        fact(hot is not None, f"again after {hot} words", f"no bigram twice in {most} words"),
        fact(free is not None, f"after {free} words", f"no bigram twice in {most} free words"),
        equal("de Bruijn: words", first_repeat(longest.text(0, 0)), most),
        equal("loop", loop(longest.text(0, 0)), (0, V**2)),
    )


def goes_round(lab: Lab, V: int, ties: bool) -> Finding:
    """If equal pairs have equal successors, what was a bigram's sequel is so again, for ever."""
    model, start = random_model(lab, V, ties), lab.rng.integers(V, size=2)
    text = model.write(int(start[0]), int(start[1]), 3 * V**2)
    scores = model.queries.numpy() @ model.embeddings.numpy().T
    best = [int(scores[a, b].argmax()) for a, b in pairwise(text[:-1])]
    found = loop(text)
    assert found is not None
    before, period = found
    return every(
        fact(text[2:] == best, "likeliest words", "not the likeliest words"),
        at_most("preperiod + period", before + period, V**2),
        fact(text[before:-period] == text[before + period :], "the text is a loop", "it is none"),
        equal("its first repeat", first_repeat(text), before + period + 2),
    )


def squares_never_loop(lab: Lab, period: int) -> Finding:
    """1 at square places, else 0: known from all before, with bigrams again, and never periodic.

    A head with a query of 0 reads the mean of all words so far, so how many of t words are 1: k.
    The next word is 1 just if k² = t. After the square k² the next 1 is 2k + 1 places on. So for
    all k from (period + 1)/2 on, there is a 1 that the period does not bring again.
    """
    squares = [k * k for k in range((period + 1) // 2, (period + 1) // 2 + 10)]
    text = [int(math.isqrt(t) ** 2 == t) for t in range(squares[-1] + period + 9)]
    words = lab.tensor(text).reshape(-1, 1)
    means = ops.attention(words * 0, words * 0, words, causal=True).numpy()[:, 0]
    known = np.arange(1, len(text) + 1)  # how many words each has read
    following = np.round(known * means) ** 2 == known
    return every(
        equal("next words, from the mean of all before", following[:-1], text[1:]),
        equal("words up to a bigram that was there before", first_repeat(text), 6),
        equal("1s that come again", sum(text[t + period] for t in squares), 0),
    )


# What the sheets say -------------------------------------------------------------------------


def predicts_what_is_given(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """P(w_{t+1} | w_t, w_{t+1}), as printed: a word that is given has probability 1."""
    return equal("P", model_of(lab, scores).probabilities(0, 0)[0], 1.0)


def cold(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """If β is the temperature, a β of 0 is certain of the best word."""
    return equal("largest P", model_of(lab, scores).probabilities(0, 0, beta).max(), 1.0, NEARLY)


def repeats_for_ever(lab: Lab, scores: tuple[float, ...], temperature: float) -> Finding:
    """At a temperature that is all but 0, from the first bigram that comes again."""
    text = model_of(lab, scores).write(0, 0, 60, temperature=temperature)
    found = loop(text)
    assert found is not None
    before, period = found
    again = zip(text[before:], text[before + period :], strict=False)
    differ = [before + period + i for i, (a, b) in enumerate(again) if a != b]
    return fact(
        not differ,
        f"a loop of {period}",
        f"a bigram again after {first_repeat(text)} words, but {len(differ)} of {len(text)} words "
        "are others than in a loop",
    )


# fmt: off
CLAIMS = [
    Claim(
        "S003-4.1", "84", TYPO, of_question=True,
        says="the model is P(w_{t+1} | w_t, w_{t+1})",
        truth="P(w_{t+2} | w_t, w_{t+1})",
        under_test=(Trigram,),
        corrected=predicts_the_next, domain={"V": Whole(1, 6)},
        literal=predicts_what_is_given, witness={"scores": (0.0, 0.0)},
    ),
    Claim(
        "S003-4.2", "84-86", TYPO, of_question=True,
        says="text is sampled at zero temperature, where β is a temperature parameter",
        truth="an inverse one: zero temperature is β → ∞, evenly over the best words; β = 0 would "
        "be even over all",
        under_test=(Trigram,),
        corrected=zero_and_infinity, domain={"scores": Wholes(-5, 5, 1, 8), "beta": Real(0, 3)},
        literal=cold, witness={"scores": (3.0, 1.0, 0.0), "beta": 0.0},
    ),
    Claim(
        "S003-4.3", "88", TRUE,
        says="a bigram must come again in the end",
        truth="within V² + 2 words, at any temperature; no sooner for a de Bruijn table, which a "
        "softmax of embeddings with two numbers can be",
        under_test=(first_repeat, de_bruijn_table, table_model, Trigram),
        corrected=must_come_again, domain={"V": Whole(1, 6), "temperature": Real(0, 5)},
    ),
    Claim(
        "S003-4.4", "88", CONDITIONAL,
        says="from then on text is a loop",
        truth="if there are no ties, or the last two words settle them: preperiod + period ≤ V²",
        under_test=(loop, first_repeat, Trigram),
        corrected=goes_round, domain={"V": Whole(1, 6), "ties": OneOf((False, True))},
        literal=repeats_for_ever, witness={"scores": (0.0, 0.0), "temperature": 1e-9},
    ),
    Claim(
        "S003-4.5", "88", OPEN,
        says="the same happens with many transformers at low temperature",
        truth="no theorem: they see all of the text; 1 at square places, else 0, follows from the "
        "mean of all words before, has bigrams again and never loops",
        under_test=(first_repeat, ops.attention),
        corrected=squares_never_loop, domain={"period": Whole(1, 40)},
    ),
]
