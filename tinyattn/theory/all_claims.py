"""Chapter 7: all claims by id, in the order of the answer sheets, and all checks by name.

Commands and tests iterate over them. The results printed about a claim come from its checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from tinyattn.theory.claim import CONDITIONAL, DRAWS, Claim, Result, judge
from tinyattn.theory.claims import QUESTIONS
from tinyattn.theory.law import Check
from tinyattn.theory.laws import LAWS
from tinyattn.workers import one_thread


def _place(claim: Claim) -> tuple[str, list[tuple[int, int, str]]]:
    """The sort key: c.ii.10 is after c.ii.9, and numbers (a sheet's later parts) after letters."""
    parts = re.findall(r"\d+|[A-Za-z]+", claim.id)
    return claim.sheet, [(1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts]


def _by_id(claims: Iterable[Claim]) -> dict[str, Claim]:
    found: dict[str, Claim] = {}
    for claim in sorted(claims, key=_place):
        if claim.id in found:
            raise ValueError(f"two claims are called {claim.id}")
        found[claim.id] = claim
    return found


CLAIMS: dict[str, Claim] = _by_id(claim for question in QUESTIONS for claim in question.CLAIMS)

CHECKS: dict[str, Check] = LAWS | {c.check.name: c.check for c in CLAIMS.values() if c.check}
"""Every law, and every other check of a claim, by its name."""


def judge_all(
    claims: Iterable[Claim],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    device: str = "cpu",
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run the checks of all these claims."""
    results = []
    with one_thread(np):
        for claim in claims:
            results.append(judge(claim, draws=draws, seed=seed, device=device))
            on_result(results[-1])
    return results


def errata(results: Iterable[Result]) -> list[Result]:
    """The claims that fail as printed in the sheets: their literal check failed on its witness.

    The wrong claims come first, then those that are true under conditions only.
    """
    found = [result for result in results if result.ok and result.claim.literal is not None]
    return sorted(found, key=lambda result: result.claim.verdict == CONDITIONAL)
