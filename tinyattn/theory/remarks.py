"""Chapter 7: remarks in the answer sheets on accuracies, points and a name.

They are no claims about attention, so plain arithmetic checks them, without the engine. The sheets
evaluated their models on the same 500 questions. An accuracy on so few has a confidence interval,
and a difference of two may be due to chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from tinyattn.tasks.evaluation import Score, fisher_exact
from tinyattn.theory.claim import TRUE, TYPO, Verdict, check_id
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact

QUESTIONS = 500
LEVEL = 0.05
"""A difference with a smaller p-value is called significant."""


@dataclass(frozen=True)
class Remark:
    """A statement in a sheet that is no claim about attention.

    Args:
        id, lines, verdict, says, truth, of_question: as of a Claim.
        check: the arithmetic that confirms `truth`.
    Raises: ValueError for an id of another form.
    """

    id: str
    lines: str
    verdict: Verdict
    says: str
    truth: str
    check: Callable[[], Finding]
    of_question: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)

    @cached_property
    def found(self) -> Finding:
        """The result of the arithmetic."""
        return self.check()

    @property
    def sheet(self) -> str:
        """000 to 004."""
        return self.id[1:4]


def share(correct: int, percent: float, low: float, high: float) -> Finding:
    """`correct` answers of 500 are `percent`, and Wilson's interval is from `low` to `high`.

    At each end p of the interval, the accuracy is 1.96 standard deviations of p away.
    """
    found, z = Score(correct, QUESTIONS), NormalDist().inv_cdf(0.975)
    q, n = correct / QUESTIONS, QUESTIONS
    ends = np.sort(np.roots([1 + z * z / n, -2 * q - z * z / n, q * q]))
    return every(
        equal(f"{correct} of {QUESTIONS} in %", 100 * found.accuracy, percent),
        equal("Wilson's interval", found.interval, ends, 1e-9),
        equal("the interval in %", 100 * np.array(found.interval), (low, high), 0.005),
    )


def difference(correct: int, other: int, luck: float) -> Finding:
    """The p-value `luck` of two counts, to two digits, and whether it is significant."""
    p = fisher_exact(Score(correct, QUESTIONS), Score(other, QUESTIONS))
    agrees = abs(p / luck - 1) < 0.05 and abs(p / by_luck(correct, other) - 1) < 1e-8
    return every(
        fact(agrees, f"{correct} and {other} right: p = {p:.2g}", f"p = {p:.2g}, not {luck:.2g}"),
        at_most("p", p, LEVEL) if luck < LEVEL else at_least("p", p, LEVEL),
    )


def by_luck(correct: int, other: int) -> float:
    """Fisher's test again, by logarithms of factorials instead of integers."""
    t, n = correct + other, QUESTIONS

    def chance(k: int) -> float:
        logs = [
            math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in (k, t - k)
        ]
        total = math.lgamma(2 * n + 1) - math.lgamma(t + 1) - math.lgamma(2 * n - t + 1)
        return math.exp(sum(logs) - total)

    chances = [chance(k) for k in range(max(0, t - n), min(n, t) + 1)]
    return sum(p for p in chances if p <= chance(correct) * (1 + 1e-7))


def nines_without_end() -> Finding:
    """23.7999.. with infinitely many nines is 23.8: the nines sum to 0.09/(1 - 1/10) per cent."""
    percent = 100 * Score(119, QUESTIONS).accuracy
    return every(
        share(119, 23.8, 20.28, 27.72),
        equal("23.7 with infinitely many nines", 23.7 + 0.09 / (1 - 0.1), percent),
        difference(119, 111, 0.60),
    )


def points_add_up() -> Finding:
    """The items of (a) do not add up, those of (b) to (d) do; a part (e) of 3 points is missing."""
    items = {"a": (1, 2, 1, 1), "b": (3, 4), "c": (2, 3), "d": (1, 2)}
    headings = {"a": 4, "b": 7, "c": 5, "d": 3}
    sums = {part: sum(points) for part, points in items.items()}
    return every(
        equal("points of (a) by items", sums["a"], headings["a"] + 1),
        *(equal(f"points of ({part}) by items", sums[part], headings[part]) for part in "bcd"),
        equal("points of all four parts", sum(headings.values()), 22 - 3),
        equal("points of all four parts by items", sum(sums.values()), 20),
    )


def size_of_gpt_3() -> Finding:
    """A layer has 12 C² + 13 C parameters; each token and each position adds a vector of C."""
    C = 96 * 128
    return every(
        equal("width of 96 heads of 128", C, 12_288),
        equal("parameters in billions", (96 * (12 * C**2 + 13 * C) + (50_257 + 2048) * C) / 1e9,
              175, 0.5),
    )  # fmt: skip


# fmt: off
REMARKS: dict[str, Remark] = {remark.id: remark for remark in (
    Remark(
        "S000-2.d", "256, 258", TRUE,
        says="6 of 500 answers are 1.2 %; if every answer is London, 25 are right, which is 5 %",
        truth="both are correct; the 95 % intervals are 0.55 to 2.59 and 3.41 to 7.28; the model "
        "without pretraining is significantly worse than the constant answer (p = 0.0007)",
        check=lambda: every(
            share(6, 1.2, 0.55, 2.59), share(25, 5.0, 3.41, 7.28), difference(6, 25, 7.3e-4)
        ),
    ),
    Remark(
        "S000-2.f", "262", TRUE,
        says="111 of 500 are 22.2 %",
        truth="this is correct; the 95 % interval is 18.78 to 26.05",
        check=lambda: share(111, 22.2, 18.78, 26.05),
    ),
    Remark(
        "S000-2.g.1", "268", TRUE,
        says="119 of 500 are 23.7999.. %, with infinitely many nines",
        truth="that number is 23.8, so it is correct; 119/500·100 in float64 is "
        "23.799999999999997; the difference of 119 and 111 is not significant (p = 0.60)",
        check=nines_without_end,
    ),
    Remark(
        "S001-2.d", "175", TRUE,
        says="10 of 500 are 2.0 %",
        truth="this is correct; the 95 % interval is 1.09 to 3.64; it is significantly below the "
        "constant answer of the other sheets, 25 (p = 0.015)",
        check=lambda: every(share(10, 2.0, 1.09, 3.64), difference(10, 25, 0.015)),
    ),
    Remark(
        "S001-2.f", "181", TRUE,
        says="93 of 500 are 18.6 %",
        truth="this is correct; the 95 % interval is 15.43 to 22.25",
        check=lambda: share(93, 18.6, 15.43, 22.25),
    ),
    Remark(
        "S001-2.g.1", "189", TRUE,
        says="25 of 500 are 5.0 %",
        truth="this is correct; the 95 % interval is 3.41 to 7.28; it is significantly below the "
        "93 of this sheet's other model (p = 2e-11)",
        check=lambda: every(share(25, 5.0, 3.41, 7.28), difference(25, 93, 1.57e-11)),
    ),
    Remark(
        "S002-3.d", "17", TRUE,
        says="2 of 500 are 0.4 %, and answering London always gives 5 %",
        truth="both are correct; the 95 % interval of the first is 0.11 to 1.45, and it is "
        "significantly below the constant answer (p = 4e-6)",
        check=lambda: every(
            share(2, 0.4, 0.11, 1.45), share(25, 5.0, 3.41, 7.28), difference(2, 25, 4.35e-6)
        ),
    ),
    Remark(
        "S002-3.f", "18", TRUE,
        says="60 of 500 are 12 %",
        truth="this is correct; the 95 % interval is 9.44 to 15.14",
        check=lambda: share(60, 12.0, 9.44, 15.14),
    ),
    Remark(
        "S003-1.b.1", "15", TYPO, of_question=True,
        says="GTP-3 has 96 heads in each of 96 layers",
        truth="GPT-3 is meant; the numbers are those of Brown and others 2020, table 2.1, and fit "
        "its width, 96 · 128 = 12,288, and its 175 billion parameters",
        check=size_of_gpt_3,
    ),
    Remark(
        "S004-pts", "15-128", TYPO, of_question=True,
        says="part (a) is worth 4 points, and question 1 is worth 22",
        truth="the items of (a) sum to 5; (a) to (d) sum to 19, or to 20 by items; a part (e), "
        "which sheet 000 answers, is missing in this copy",
        check=points_add_up,
    ),
)}
# fmt: on
