"""Claims: questions 2 and 3, what the sheets report of their models, and how much counts can show.

Each sheet asked its models the same 500 questions. A share of so many has an interval, and a
difference of two a chance to be luck. Next: attention in general.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from tinyattn import ops
from tinyattn.tasks.evaluation import Score, fisher_exact
from tinyattn.theory.claim import OPEN, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab

QUESTIONS = 500
LEVEL = 0.05
"""A difference that luck makes less often than this is called significant."""


# What is true --------------------------------------------------------------------------------


def share(correct: int, percent: float, low: float, high: float) -> Finding:
    """So many right answers are so many per cent, and these are the ends of Wilson's interval.

    At either end p of the interval, what was found lies 1.96 standard deviations of p away.
    """
    found, z = Score(correct, QUESTIONS), NormalDist().inv_cdf(0.975)
    q, n = correct / QUESTIONS, QUESTIONS
    ends = np.sort(np.roots([1 + z * z / n, -2 * q - z * z / n, q * q]))
    return every(
        equal(f"{correct} of {QUESTIONS} in %", 100 * found.accuracy, percent),
        equal("Wilson's interval", found.interval, ends, 1e-9),
        equal("in %", 100 * np.array(found.interval), (low, high), 0.005),
    )


def by_luck(correct: int, other: int) -> float:
    """Fisher's test again, by logarithms of factorials in place of whole numbers."""
    t, n = correct + other, QUESTIONS

    def chance(k: int) -> float:
        logs = [
            math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in (k, t - k)
        ]
        total = math.lgamma(2 * n + 1) - math.lgamma(t + 1) - math.lgamma(2 * n - t + 1)
        return math.exp(sum(logs) - total)

    chances = [chance(k) for k in range(max(0, t - n), min(n, t) + 1)]
    return sum(p for p in chances if p <= chance(correct) * (1 + 1e-7))


def difference(correct: int, other: int, luck: float) -> Finding:
    """How often luck sets counts so far apart, to two digits, and what follows from it."""
    p = fisher_exact(Score(correct, QUESTIONS), Score(other, QUESTIONS))
    agrees = abs(p / luck - 1) < 0.05 and abs(p / by_luck(correct, other) - 1) < 1e-8
    return every(
        fact(agrees, f"{correct} and {other} right: p = {p:.2g}", f"p = {p:.2g}, not {luck:.2g}"),
        at_most("p", p, LEVEL) if luck < LEVEL else at_least("p", p, LEVEL),
    )


def nines_without_end(lab: Lab) -> Finding:
    """23.7999.. is 23.8: the tail of nines is 0.09/(1 - 1/10) of a per cent."""
    percent = 100 * Score(119, QUESTIONS).accuracy
    return every(
        share(119, 23.8, 20.28, 27.72),
        equal("23.7 and nines", 23.7 + 0.09 / (1 - 0.1), percent),
        fact("23.8 %" in str(Score(119, QUESTIONS)), "rounds to 23.8", "does not round to 23.8"),
    )


def points_of(lab: Lab, parts: Sequence[Sequence[int]]) -> float:
    """The points of some parts of a question, item by item."""
    return float(sum(ops.sum(lab.tensor(items)).item() for items in parts))


ITEMS = {"a": (1, 2, 1, 1), "b": (3, 4), "c": (2, 3), "d": (1, 2)}
HEADINGS = {"a": 4, "b": 7, "c": 5, "d": 3}


def points_add_up(lab: Lab) -> Finding:
    """Of (a) they do not, of the other parts they do; what is missing is a part (e) of three."""
    sums = {part: points_of(lab, [items]) for part, items in ITEMS.items()}
    return every(
        equal("points of (a) by items", sums["a"], 5),
        *(equal(f"points of ({part}) by items", sums[part], HEADINGS[part]) for part in "bcd"),
        equal("all four parts", sum(HEADINGS.values()), 19),
        equal("all four parts by items", points_of(lab, list(ITEMS.values())), 20),
    )


# What the sheets say -------------------------------------------------------------------------


def items_add_to(lab: Lab, items: tuple[int, ...], heading: int) -> Finding:
    """The items of a part have the points of its heading."""
    return equal("the items add to", points_of(lab, [items]), heading)


# fmt: off
CLAIMS = [
    Claim(
        "S000-2.d", "256, 258", TRUE,
        says="6 of 500 are 1.2 %, and 25, if every answer is London, 5 %",
        truth="so they are, with 95 % intervals of 0.55 to 2.59 and 3.41 to 7.28; without "
        "pretraining the model is below the constant guess, hardly by luck (p = 0.0007)",
        under_test=(Score, fisher_exact),
        corrected=lambda lab: every(
            share(6, 1.2, 0.55, 2.59), share(25, 5.0, 3.41, 7.28), difference(6, 25, 7.3e-4)
        ),
    ),
    Claim(
        "S000-2.f", "262", TRUE,
        says="111 of 500 are 22.2 %",
        truth="so they are, with a 95 % interval of 18.78 to 26.05",
        under_test=(Score,),
        corrected=lambda lab: share(111, 22.2, 18.78, 26.05),
    ),
    Claim(
        "S000-2.g.1", "268", TRUE,
        says="119 of 500 are 23.7999.. %, nines without end",
        truth="that number is 23.8, so it is right; the nines look like 119/500·100 in float64, "
        "which is 23.799999999999997",
        under_test=(Score,),
        corrected=nines_without_end,
    ),
    Claim(
        "S000-2.g.3", "272", OPEN,
        says="a synthesizer therefore performs poorly on long-distance relations between words",
        truth="nothing in the sheet measures such relations; of all 500 answers 119 are right with "
        "the synthesizer, 111 without, and luck alone sets two such counts as far apart in 60 % of "
        "cases",
        under_test=(fisher_exact,),
        corrected=lambda lab: difference(119, 111, 0.60),
    ),
    Claim(
        "S000-3", "278-288", OPEN,
        says="pretraining generalises, invented places mislead, a name does not tell a birthplace",
        truth="opinions; what can be counted of a model, `evaluate --report` counts; it is done "
        "for a made-up world in derivations/23_knowledge.md",
    ),
    Claim(
        "S001-2.d", "175", TRUE,
        says="10 of 500 are 2.0 %",
        truth="so they are, with a 95 % interval of 1.09 to 3.64; below the constant guess of the "
        "other sheets, 25 (p = 0.015)",
        under_test=(Score, fisher_exact),
        corrected=lambda lab: every(share(10, 2.0, 1.09, 3.64), difference(10, 25, 0.015)),
    ),
    Claim(
        "S001-2.f", "181", TRUE,
        says="93 of 500 are 18.6 %",
        truth="so they are, with a 95 % interval of 15.43 to 22.25",
        under_test=(Score,),
        corrected=lambda lab: share(93, 18.6, 15.43, 22.25),
    ),
    Claim(
        "S001-2.g.1", "189", TRUE,
        says="25 of 500 are 5.0 %",
        truth="so they are, with a 95 % interval of 3.41 to 7.28",
        under_test=(Score,),
        corrected=lambda lab: share(25, 5.0, 3.41, 7.28),
    ),
    Claim(
        "S001-2.g.2", "189-191", OPEN,
        says="the Perceiver's 5.0 % were reached by rescaling some of its parameters",
        truth="too little is told to try it; 25 of 500 is what the other sheets get by answering "
        "London always, and far below the 93 of this sheet's other model (p = 2e-11)",
        under_test=(fisher_exact,),
        corrected=lambda lab: difference(25, 93, 1.57e-11),
    ),
    Claim(
        "S001-3", "205-216", OPEN,
        says="pretraining brings knowledge, made-up answers cannot be told from true ones, names "
        "are no ground for an answer",
        truth="opinions; some can be counted (S000-3)",
    ),
    Claim(
        "S002-3.d", "17", TRUE,
        says="2 of 500 are 0.4 %, and London always gives 5 %",
        truth="so it is, with a 95 % interval of 0.11 to 1.45 for the first, which is below the "
        "constant guess (p = 4e-6)",
        under_test=(Score, fisher_exact),
        corrected=lambda lab: every(
            share(2, 0.4, 0.11, 1.45), share(25, 5.0, 3.41, 7.28), difference(2, 25, 4.35e-6)
        ),
    ),
    Claim(
        "S002-3.f", "18", TRUE,
        says="60 of 500 are 12 %",
        truth="so they are, with a 95 % interval of 9.44 to 15.14",
        under_test=(Score,),
        corrected=lambda lab: share(60, 12.0, 9.44, 15.14),
    ),
    Claim(
        "S002-4", "31-34", OPEN,
        says="pretraining brings structure and facts, answers mislead by their language, names do "
        "not tell a birthplace",
        truth="opinions; some can be counted (S000-3)",
    ),
    Claim(
        "S004-pts", "15-127", TYPO,
        says="part (a) is worth 4 points, and question 1, with its parts (a) to (d), 22",
        truth="the items of (a) add to 5, and (a) to (d) to 19, or 20 by items; a part (e), which "
        "sheet 000 answers, is missing in this copy",
        under_test=(ops.sum,),
        corrected=points_add_up,
        literal=items_add_to, witness={"items": (1, 2, 1, 1), "heading": 4},
    ),
]
