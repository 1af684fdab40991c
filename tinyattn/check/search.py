"""Wing, check: the search for a counterexample to one law.

Hypothesis draws the arguments of the law, and shrinks those on which the attention under test
breaks it. The law itself draws the arrays.
"""

from __future__ import annotations

import re
import time
import traceback
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from tinyattn.check.implementation import Called
from tinyattn.check.strategies import of_values
from tinyattn.theory.conventions import FEATURES, Conventions, Unsupported
from tinyattn.theory.finding import rounding, shown
from tinyattn.theory.lab import Lab
from tinyattn.theory.law import Law
from tinyattn.theory.laws.attention import PAGE

SINGLE = 1e-3
"""The largest difference of equal numbers for an attention without float64."""
ENOUGH = 20
"""After so many arguments with an unsupported feature, and none without, a law is left out."""
MOST = 60
"""The most numbers in the lines of code that show a counterexample."""


class Rounded(np.random.Generator):
    """Random numbers that are easy to read: normal ones have one digit after the point.

    Only for laws about any q, k and v: a matrix of such numbers may be singular by chance.
    """

    def standard_normal(self, *args: Any, **options: Any) -> Any:
        """As NumPy's, rounded."""
        return np.round(super().standard_normal(*args, **options), 1)


@dataclass(frozen=True)
class Counterexample:
    """How an attention breaks a law.

    Args:
        arguments: those of the law.
        text: what the law measured, or the exception.
        call: a call of the attention whose result is not right; None if each single one is.
    """

    arguments: dict[str, Any]
    text: str
    call: Called | None

    def code(self, name: str, module: str) -> str:
        """Three lines that show it: import, inputs, a call with its result and the right one."""
        if self.call is None or sum(a.size for a in self.call.arrays) > MOST:
            return ""
        put, imports = self.call.library.code, self.call.library.imports
        arrays = ", ".join(_literal(a) for a in self.call.arrays)
        given = "".join(f", {n}={_literal(x, put)}" for n, x in self.call.keywords.items())
        return "\n".join([
            f"{imports}import numpy as np; from {module} import {name}",
            f"q, k, v = map({put}, ({arrays}))" if put else f"q, k, v = {arrays}",
            f"print({name}(q, k, v{given}))  # {_shown(self.call.got)}; "
            f"right: {_shown(self.call.right)}",
        ])  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """The result for one law.

    Args:
        state: "holds", "broken" or "left out".
        why: the missing features of a law that is left out.
    """

    law: Law
    state: str
    seconds: float
    why: str = ""
    counterexample: Counterexample | None = None


class UnderTest(Protocol):
    """A function that can compute in place of an op: an Implementation, for example."""

    @property
    def f(self) -> Any:
        """The function of the user."""

    @property
    def conventions(self) -> Conventions:
        """What it declares about itself."""

    @property
    def calls(self) -> list[Called]:
        """Its calls since this list was cleared."""

    def can(self, feature: str) -> bool:
        """Whether it supports a feature."""

    def in_use(self) -> AbstractContextManager[None]:
        """A context in which it computes in place of the op."""


class _Broken(Exception):
    """The law fails on these arguments."""


class _LeftOut(Exception):
    """The law needs something that is not supported, whatever its arguments are."""


def repeatable(examples: int) -> settings:
    """Settings of a search that tries so many arguments, the same ones in each run."""
    return settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip


def check_law(law: Law, implementation: UnderTest, *, examples: int = 40) -> Checked:
    """Search the domain of a law for arguments on which an attention breaks it.

    The same implementation gives the same result: the search does not depend on the time.
    """
    began, tried, refused, missing = time.perf_counter(), 0, 0, set()
    generator = Rounded if law.page == PAGE else np.random.Generator
    worst: Counterexample | None = None

    @repeatable(examples)
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        nonlocal tried, worst, refused
        drawn = {name: data.draw(of_values(v)) for name, v in law.domain.items()}
        seed = data.draw(st.integers(0, 1000))
        rng = generator(np.random.PCG64(seed))
        lab = Lab(rng, conventions=implementation.conventions, masked=3)
        implementation.calls.clear()
        try:
            with implementation.in_use():
                finding = law(lab, **drawn)
        except Unsupported as unsupported:
            missing.add(str(unsupported))
            refused += 1
            if refused >= ENOUGH and not tried:
                raise _LeftOut from None
            reject()
        except HypothesisException:
            raise
        except Exception as error:  # whatever the attention under test raises
            text = about(error, implementation.f)
        else:
            tried += 1
            if finding.holds:
                return
            text = finding.text
        worst = Counterexample(drawn, text, _first_wrong(implementation.calls))
        raise _Broken

    single = not implementation.can("float64")
    try:
        with rounding(SINGLE if single else 0.0), np.errstate(all="ignore"):
            attempt()
    except (_Broken, _LeftOut):
        pass
    except HypothesisException:  # no arguments fit, or the function is not always the same
        if worst is None and not missing:
            raise
    state = "broken" if worst else "holds" if tried else "left out"
    why = ", ".join(sorted(missing)) if state == "left out" else ""
    return Checked(law, state, time.perf_counter() - began, why, worst)


def about(error: Exception, f: Any) -> str:
    """An exception, with the line of the function in which it occurred, and what may help."""
    text = f"{type(error).__name__}: {error}"
    file = getattr(getattr(f, "__code__", None), "co_filename", None)
    lines: list[int | None] = []
    raised: BaseException | None = error
    while raised is not None and not lines:  # an op raises its errors from those of the function
        lines = [place.lineno for place in traceback.extract_tb(raised.__traceback__)
                 if place.filename == file]  # fmt: skip
        raised = raised.__cause__
    keyword = re.search(r"unexpected keyword argument '(\w+)'", text)
    if keyword and keyword[1] in FEATURES:
        text += f"; if it has no {keyword[1]}, leave {keyword[1]} out of what it supports"
    return f"{text} (line {lines[-1]} of {Path(file or '').name})" if lines else text


def _first_wrong(calls: list[Called]) -> Called | None:
    """The first call that differs most clearly from what is right."""
    for within in (1e-3, 1e-9):
        for call in calls:
            fits = call.got.shape == call.right.shape
            if not fits or not np.allclose(call.got, call.right, within, within, equal_nan=True):
                return call
    return None


def _literal(x: Any, put: str = "") -> str:
    """Python code for a number, or for an array to which the function `put` is applied."""
    if not isinstance(x, np.ndarray):
        return repr(x)
    kind = "" if x.dtype in (np.float64, bool) else f", dtype='{x.dtype}'"
    array = f"np.array({_list(x.tolist())}{kind})"
    return f"{put}({array})" if put else array


def _list(x: Any) -> str:
    """A nested list with numbers as short as they are exact; np.nan and np.inf by name."""
    if isinstance(x, list):
        return f"[{', '.join(map(_list, x))}]"
    text = repr(x)
    return f"np.{text}" if text in ("nan", "inf") else text.replace("-inf", "-np.inf")


def _shown(x: np.ndarray) -> str:
    """An array to four digits, or its shape."""
    return shown(x) if x.size <= 12 else f"shape {x.shape}"
