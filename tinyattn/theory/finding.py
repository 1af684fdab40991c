"""Chapter 7: the result of a check.

A check returns whether a statement is true, a text with the numbers that it measured, and these
numbers by name. The table of errors is printed from these texts, so it always agrees with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyattn.tensor import Tensor

EXACT = 1e-11
"""The largest difference of equal numbers: float64 rounds at 1e-16, and the errors add up."""

_rounding = ContextVar("rounding", default=0.0)

NEARLY = 0.01
"""The largest difference of "almost" equal numbers, where an answer sheet does not give one."""


@dataclass(frozen=True)
class Finding:
    """Whether a statement holds, what was measured as a text, and the quantities by name."""

    holds: bool
    text: str
    measured: dict[str, np.ndarray] = field(default_factory=dict)


@contextmanager
def rounding(most: float) -> Iterator[None]:
    """A context in which numbers that differ by `most` are equal, for a precision below float64."""
    before = _rounding.set(most)
    try:
        yield
    finally:
        _rounding.reset(before)


def equal(what: str, got: Any, wanted: Any, within: float = EXACT) -> Finding:
    """Whether numbers, or arrays of one shape, differ by at most `within`, absolutely."""
    within = _rounded(within)
    a, b = _plain(got), _plain(wanted)
    if a.shape != b.shape:
        return Finding(False, f"shape of {what} = {a.shape} instead of {b.shape}", _named(what, a))
    holds = bool((np.abs(a - b) <= within).all())  # never with NaN
    text = _is(what, a) + ("" if holds else f" instead of {shown(b)}{_difference(a, b)}")
    return Finding(holds, text, _named(what, a))


def at_most(what: str, got: Any, bound: Any, within: float = EXACT) -> Finding:
    """Whether no number is above its bound."""
    within = _rounded(within)
    a, b = _plain(got), _plain(bound)
    holds = bool((a <= b + within).all())
    text = f"{_is(what, a)} {'≤' if holds else 'not ≤'} {_bound(b)}"
    text += "" if holds else _difference(a, b)
    return Finding(holds, text, _named(what, a))


def at_least(what: str, got: Any, bound: Any, within: float = EXACT) -> Finding:
    """Whether no number is below its bound."""
    within = _rounded(within)
    a, b = _plain(got), _plain(bound)
    holds = bool((a >= b - within).all())
    text = f"{_is(what, a)} {'≥' if holds else 'not ≥'} {_bound(b)}"
    text += "" if holds else _difference(a, b)
    return Finding(holds, text, _named(what, a))


def fact(holds: Any, yes: str, no: str) -> Finding:
    """A finding with the text `yes` if it holds, else `no`."""
    return Finding(bool(holds), yes if holds else no)


def every(*findings: Finding) -> Finding:
    """Whether all findings hold; the text is that of those that do not, or else of all.

    If several measured a quantity of one name, the first one counts.
    """
    failed = [finding for finding in findings if not finding.holds]
    text = "; ".join(dict.fromkeys(finding.text for finding in failed or findings))
    measured = {k: v for finding in reversed(findings) for k, v in finding.measured.items()}
    return Finding(not failed, text, measured)


def shown(value: Any) -> str:
    """A number, or up to 12 numbers, to four digits."""
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


def _rounded(within: float) -> float:
    """The tolerance, or that of `rounding` if it is larger. 0 stays 0: no bit may differ."""
    return within and max(within, _rounding.get())


def _named(what: str, value: np.ndarray) -> dict[str, np.ndarray]:
    return {what.rstrip(":,"): value}


def _is(what: str, value: np.ndarray) -> str:
    """`WHAT = VALUE`; without the sign after a condition, and before a shape."""
    text = shown(value)
    joined = what.endswith((":", ",", " is")) or text.startswith("of shape")
    return f"{what} {text}" if joined else f"{what} = {text}"


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    """The largest difference, if the numbers are the same to the digits that are shown."""
    largest = np.abs(a - b).max(initial=0)
    alike = shown(a) == shown(b) and np.isfinite(largest)
    return f" (the largest difference is {largest:.2g})" if alike else ""


def _bound(value: np.ndarray) -> str:
    text = shown(value)
    return "their bounds" if text.startswith("of shape") else text


def _plain(value: Any) -> np.ndarray:
    return np.asarray(value.numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
