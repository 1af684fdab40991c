"""Chapter 7: a claim, and what becomes of it.

Each claim of the sheets has a verdict, and two checks that must bear it out. `literal` is the claim
as it stands in the sheet; on its `witness` it has to fail. `corrected` is what is true instead; it
has to hold for everything in its domain. What is simply true needs only the second. So the table of
errors is printed from what the checks find.
"""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from tinyattn.backend import get_device
from tinyattn.limits import seed_of
from tinyattn.theory.finding import Finding, shown
from tinyattn.theory.lab import Domain, Lab

Check = Callable[..., Finding]
"""A function of a Lab and of named arguments."""

DRAWS = 12
"""How often `corrected` is tried."""

LETTERS = {
    "alpha": "α",
    "beta": "β",
    "delta": "δ",
    "eta": "η",
    "lamda": "λ",
    "c1": "c_1",
    "c2": "c_2",
}
"""How arguments are written whose names cannot be."""


class Verdict(StrEnum):
    """What is to be said about a claim."""

    TRUE = "TRUE"
    CONDITIONAL = "TRUE WITH CONDITIONS"
    FALSE = "FALSE"
    TYPO = "TYPO"
    OPEN = "NOT CHECKABLE"


TRUE, CONDITIONAL, FALSE, TYPO, OPEN = Verdict

LEGEND = {
    OPEN: "an opinion, a permission, a citation, or a statement about data that are not shown",
    TRUE: "holds as it stands, whatever the question does not fix, and for 95 % of random draws; a "
    "`can` or `may` holds if it happens",
    TYPO: "wrong as printed, but shapes or the next step show which symbol, index or name is "
    "meant, and nobody could mean what is printed",
    CONDITIONAL: "fails on a counterexample, but holds on a whole range: of a quantity that it "
    "does not mention, or of how `large`, `≫`, `≈`, `small` or a limit is read; or for three "
    "quarters of random draws",
    FALSE: "fails on every such range; it calls something enough, needed, impossible or the "
    "reason, and it is not; or a number or a formula is wrong",
}
"""When a verdict is given: the first that fits, in this order."""


@dataclass(frozen=True)
class Claim:
    """One claim and the checks that bear its verdict out.

    Args:
        id: the sheet, the question, and a number, such as S000-b.6; G-.. for general facts about
            attention, N-.. for results that stand in no sheet.
        lines: where it stands in the sheet.
        verdict: by the LEGEND.
        says: the claim, in our words.
        truth: what is true, exactly; or why nothing can be checked.
        under_test: the functions of this package that the checks call.
        corrected: the check of `truth`.
        domain: where it has to hold.
        literal: the check of `says`, if that is not simply true.
        witness: where that fails: for what is true with conditions, outside of these.
        of_question: whether the sheet only prints it: it is the assignment that says so.
    Raises: ValueError for an id of another form, if the verdict needs a check that is missing, or
        has one too many, or if a check does not take the arguments of the domain or the witness.
    """

    id: str
    lines: str
    verdict: Verdict
    says: str
    truth: str
    under_test: tuple[Callable[..., Any], ...] = ()
    corrected: Check | None = None
    domain: Domain = field(default_factory=dict)
    literal: Check | None = None
    witness: dict[str, Any] = field(default_factory=dict)
    of_question: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)
        if (self.corrected is None) != (not self.under_test) or (
            self.verdict != OPEN and self.corrected is None
        ):
            raise ValueError(f"{self.id}: a corrected check and what it tests belong together")
        if (self.literal is None) != (self.verdict in (TRUE, OPEN)):
            raise ValueError(f"{self.id}: a literal check belongs to what is not simply {TRUE}")
        for check, given in ((self.corrected, self.domain), (self.literal, self.witness)):
            if check is not None and [*inspect.signature(check).parameters][1:] != [*given]:
                raise ValueError(f"{self.id}: a check takes other arguments than {[*given]}")

    @property
    def sheet(self) -> str:
        """000 to 004, "general" or "new"."""
        return {"G": "general", "N": "new"}.get(self.id[0], self.id[1:4])


@dataclass(frozen=True)
class Result:
    """What the checks of a claim found.

    Args:
        counterexample: the witness, and what the literal check measured on it.
        found: where the corrected check was tried last, or failed, and what it measured.
        unexpected: what does not bear the verdict out; empty if all is well.
    """

    claim: Claim
    counterexample: str
    found: str
    unexpected: str

    @property
    def ok(self) -> bool:
        """Whether the checks bear the verdict out."""
        return not self.unexpected


def check_id(name: str) -> None:
    """Raises: ValueError unless it is a sheet, a question and a number, or a general fact's."""
    if not re.fullmatch(r"(S00[0-4]|G|N)-[\w.]+", name):
        raise ValueError(f"a claim's id must be such as S000-b.6, G-01 or N-1; got {name!r}")


def judge(claim: Claim, *, draws: int = DRAWS, seed: int = 0, device: str = "cpu") -> Result:
    """Try a claim: the literal check once, on its witness, the corrected one on so many draws.

    The same seed draws the same numbers, whatever else is tried.

    Raises: ValueError for less than one draw, or an unknown device; RuntimeError for one that is
        not there.
    """
    if draws < 1:
        raise ValueError(f"judge: draws must be at least 1; got {draws}")
    get_device(device)
    if claim.corrected is None:  # an opinion
        return Result(claim, "", "", "")
    start = [seed_of(seed), zlib.crc32(claim.id.encode())]
    counterexample = found = unexpected = ""
    if claim.literal is not None:
        fails, counterexample = _tried(claim.literal, claim.witness, start, device)
        if fails is None:
            unexpected = "the check of what the sheet says broke"
        elif fails.holds:
            unexpected = "what the sheet says holds on the witness"
    for i in range(draws if claim.domain else 1):
        rng = np.random.default_rng([*start, i])
        drawn = {name: domain.draw(rng) for name, domain in claim.domain.items()}
        holds, found = _tried(claim.corrected, drawn, [*start, i, 1], device)
        if not (holds and holds.holds):
            return Result(claim, counterexample, found, "what should be true fails")
    return Result(claim, counterexample, found, unexpected)


def _tried(
    check: Check, arguments: dict[str, Any], seed: list[int], device: str
) -> tuple[Finding | None, str]:
    """What a check finds, and that in words with its arguments: n = 10, M = 2.5: α_a 0.4."""
    spelled = [f"{LETTERS.get(name, name)} = {shown(value)}" for name, value in arguments.items()]
    try:
        finding = check(Lab(np.random.default_rng(seed), device), **arguments)
        text = finding.text
    except Exception as error:  # a check that breaks is a result too, and the others go on
        finding, text = None, f"{type(error).__name__}: {error}"
    return finding, ": ".join(filter(None, [", ".join(spelled), text]))
