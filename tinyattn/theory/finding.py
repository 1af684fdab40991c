"""Chapter 7: what a check finds.

A check does not only say yes or no. It says what it measured, so that a table of errors can be
printed from the results, and cannot drift away from the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.tensor import Tensor

EXACT = 1e-11
"""How far equal numbers may be apart: float64 rounds at 1e-16, and sums and products add up."""

NEARLY = 0.01
"""How far apart numbers may be that are "almost" equal, where a sheet does not say how far."""


@dataclass(frozen=True)
class Finding:
    """Whether a statement holds, and what was measured."""

    holds: bool
    text: str


def equal(what: str, got: Any, wanted: Any, within: float = EXACT) -> Finding:
    """Whether numbers, or arrays of one shape, are equal up to `within`, which is absolute."""
    a, b = _plain(got), _plain(wanted)
    if a.shape != b.shape:
        return Finding(False, f"{what} has shape {a.shape} instead of {b.shape}")
    holds = bool((np.abs(a - b) <= within).all())  # never with NaN
    return Finding(holds, f"{what} {shown(a)}" + ("" if holds else f" instead of {shown(b)}"))


def at_most(what: str, got: Any, bound: Any, within: float = EXACT) -> Finding:
    """Whether numbers are nowhere above a bound."""
    a, b = _plain(got), _plain(bound)
    holds = bool((a <= b + within).all())
    return Finding(holds, f"{what} {shown(a)}, {'at most' if holds else 'not at most'} {shown(b)}")


def at_least(what: str, got: Any, bound: Any, within: float = EXACT) -> Finding:
    """Whether numbers are nowhere below a bound."""
    a, b = _plain(got), _plain(bound)
    holds = bool((a >= b - within).all())
    return Finding(
        holds, f"{what} {shown(a)}, {'at least' if holds else 'not at least'} {shown(b)}"
    )


def fact(holds: Any, yes: str, no: str) -> Finding:
    """Something that is so, or is not, in words."""
    return Finding(bool(holds), yes if holds else no)


def every(*findings: Finding) -> Finding:
    """All of them together: what failed, or else what all found."""
    failed = [finding for finding in findings if not finding.holds]
    return Finding(not failed, "; ".join(finding.text for finding in failed or findings))


def shown(value: Any) -> str:
    """A number, or a few, to four digits."""
    if isinstance(value, str | bool):
        return str(value)
    if callable(value):
        return str(getattr(value, "__name__", value)).strip("_").replace("_", " ")
    a = _plain(value)
    if a.ndim == 0:
        whole = a == np.round(a) and abs(a) < 1e15
        return f"{int(a):,}" if whole else f"{float(a):.4g}"
    if a.size > 12:
        return f"of shape {a.shape}"
    return f"({', '.join(shown(x).replace(',', '') if x.ndim == 0 else shown(x) for x in a)})"


def _plain(value: Any) -> np.ndarray:
    return np.asarray(value.numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
