"""Chapter 7: a claim and its verdict.

Each claim of the answer sheets (students' published solutions) has a verdict. What is true about
it, a law or another check decides, for all arguments of its domain. If the claim as printed is not
true, `literal` is what it says, and fails on its `witness`, a counterexample: mostly a number that
the same law measures. The table of errors is printed from the results.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from tinyattn.backend import get_device
from tinyattn.limits import seed_of
from tinyattn.theory.finding import Finding, shown
from tinyattn.theory.lab import Lab
from tinyattn.theory.law import Check, Run, arguments_of

DRAWS = 12
"""The number of random draws on which the check of a claim is tried."""

LETTERS = {
    "alpha": "α",
    "beta": "β",
    "delta": "δ",
    "eta": "η",
    "lamda": "λ",
    "c1": "c_1",
    "c2": "c_2",
}
"""The printed symbols of arguments whose Python names are different."""


class Verdict(StrEnum):
    """Whether a claim is true."""

    TRUE = "TRUE"
    CONDITIONAL = "TRUE WITH CONDITIONS"
    FALSE = "FALSE"
    TYPO = "TYPO"
    OPEN = "NOT CHECKABLE"


TRUE, CONDITIONAL, FALSE, TYPO, OPEN = Verdict

LEGEND = {
    OPEN: "an opinion, a permission, a citation, or a statement about data that are not shown",
    TRUE: "holds as stated, for all values that the question leaves open, and for 95 % of random "
    "draws; a claim with `can` or `may` holds if the event is possible",
    TYPO: "wrong as printed, but the shapes or the next step show which symbol, index or name is "
    "meant, and the printed one cannot be meant",
    CONDITIONAL: "fails on a counterexample, but holds on a range of a quantity that it does not "
    "mention, or for a range of meanings of `large`, `≫`, `≈`, `small` or a limit; or holds for "
    "three quarters of random draws",
    FALSE: "fails on every such range; or it calls something sufficient, necessary, impossible or "
    "the reason, which it is not; or a number or a formula is wrong",
}
"""The rule for each verdict; the first that fits, in this order, is given."""


@dataclass(frozen=True)
class Claim:
    """One claim, and what confirms its verdict.

    Args:
        id: the sheet, the question, and a number, such as S000-b.6; G-.. for general facts about
            attention, N-.. for results that are in no sheet, P-.. for claims of papers.
        lines: its line numbers in the sheet; of a paper, the paper.
        verdict: by the rules of LEGEND.
        says: the claim, in our words.
        truth: the exact true statement, or why nothing can be checked; "" if the statement of
            the check is all.
        check: the law, or the other check, that decides what is true; an opinion may have none.
        literal: what `says` says; None if the verdict is TRUE or NOT CHECKABLE.
        witness: the arguments on which `literal` must fail.
        of_question: whether the assignment makes the claim, and the sheet only quotes it.
    Raises: ValueError for an id of another form, if a check is missing or superfluous for the
        verdict, or if `literal` does not take the arguments of the witness.
    """

    id: str
    lines: str
    verdict: Verdict
    says: str
    truth: str = ""
    check: Check | None = None
    literal: Run | None = None
    witness: dict[str, Any] = field(default_factory=dict)
    of_question: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)
        if self.check is None and not (self.verdict == OPEN and self.truth):
            raise ValueError(f"{self.id}: needs a check, or the reason why it is {OPEN}")
        if (self.literal is None) != (self.verdict in (TRUE, OPEN)):
            raise ValueError(f"{self.id}: literal must be None for {TRUE} and {OPEN}, only then")
        if self.check and not self.truth:
            object.__setattr__(self, "truth", self.check.says)  # the class is frozen
        if self.literal is not None and arguments_of(self.literal) != [*self.witness]:
            raise ValueError(f"{self.id}: literal must take the arguments {[*self.witness]}")

    @property
    def sheet(self) -> str:
        """000 to 004, "general", "new" or "papers"."""
        return {"G": "general", "N": "new", "P": "papers"}.get(self.id[0], self.id[1:4])


@dataclass(frozen=True)
class Result:
    """The results of a claim's checks.

    Args:
        counterexample: the witness, and what the literal check measured on it.
        found: the last arguments of the check, and what it measured on them.
        unexpected: how the checks contradict the verdict; empty if they confirm it.
    """

    claim: Claim
    counterexample: str
    found: str
    unexpected: str

    @property
    def ok(self) -> bool:
        """Whether the checks confirm the verdict."""
        return not self.unexpected


def check_id(name: str) -> None:
    """Raises: ValueError unless it is sheet, question and number, or begins with G-, N- or P-."""
    if not re.fullmatch(r"(S00[0-4]|G|N|P)-[\w.]+", name):
        raise ValueError(f"a claim's id must be such as S000-b.6, G-01, N-1 or P-1; got {name!r}")


def judge(claim: Claim, *, draws: int = DRAWS, seed: int = 0, device: str = "cpu") -> Result:
    """Run `literal` once, on its witness, and the check of a claim on random draws.

    The random numbers depend on the seed and the claim's id only.

    Raises: ValueError for less than one draw, or an unknown device; RuntimeError for a device
        that is not available.
    """
    if draws < 1:
        raise ValueError(f"judge: draws must be at least 1; got {draws}")
    get_device(device)
    if claim.check is None:  # an opinion
        return Result(claim, "", "", "")
    start = [seed_of(seed), zlib.crc32(claim.id.encode())]
    counterexample = found = unexpected = ""
    if claim.literal is not None:
        fails, counterexample = _tried(claim.literal, claim.witness, start, device)
        if fails is None:
            unexpected = "the check of the claim raised an exception"
        elif fails.holds:
            unexpected = "the claim holds on the witness"
    for i in range(draws if claim.check.domain else 1):
        rng = np.random.default_rng([*start, i])
        drawn = {name: values.draw(rng) for name, values in claim.check.domain.items()}
        holds, found = _tried(claim.check, drawn, [*start, i, 1], device)
        if not (holds and holds.holds):
            return Result(claim, counterexample, found, "the corrected statement fails")
    return Result(claim, counterexample, found, unexpected)


def _tried(
    check: Run, arguments: dict[str, Any], seed: list[int], device: str
) -> tuple[Finding | None, str]:
    """The finding of a check, and its text with the arguments: n = 10, M = 2.5: α_a 0.4."""
    spelled = [f"{LETTERS.get(name, name)} = {shown(value)}" for name, value in arguments.items()]
    try:
        finding = check(Lab(np.random.default_rng(seed), device), **arguments)
        text = finding.text
    except Exception as error:  # an exception is a result too, and the other checks go on
        finding, text = None, f"{type(error).__name__}: {error}"
    return finding, ": ".join(filter(None, [", ".join(spelled), text]))
