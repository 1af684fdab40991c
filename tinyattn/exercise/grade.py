"""Wing, exercise: the grade of a function, check by check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis.errors import HypothesisException

from tinyattn.check.conformance import in_order
from tinyattn.check.search import about, check_law, repeatable
from tinyattn.exercise import checks
from tinyattn.exercise.exercise import Exercise
from tinyattn.exercise.inputs import INPUTS
from tinyattn.exercise.own_function import OwnFunction
from tinyattn.theory.finding import Finding

SHARE = 4
"""A law is tried on this fraction of the arguments: there are many, and each draws arrays too."""


@dataclass(frozen=True)
class Graded:
    """The result of one check, or of one law of attention.

    Args:
        name: value, gradient, float32, result, or the name of the law.
        says: what must hold.
        state: "holds", "broken" or "left out".
        arguments: the smallest ones that were found for which it does not hold.
        text: what came out and what is right, or the exception.
        page: of a law: the page that proves it.
        raised: whether the function raised an exception.
    """

    name: str
    says: str
    state: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    page: str = ""
    raised: bool = False


@dataclass(frozen=True)
class Grade:
    """The results of all checks, in the order in which they were made."""

    exercise: Exercise
    results: tuple[Graded, ...]

    @property
    def broken(self) -> list[Graded]:
        """Those that do not hold."""
        return [result for result in self.results if result.state == "broken"]

    @property
    def ok(self) -> bool:
        """Whether all of them hold."""
        return not self.broken


class _Broken(Exception):
    """The check fails for these arguments."""


def grade(exercise: Exercise, f: Callable[..., Any], *, examples: int = 40) -> Grade:
    """Compare a reader's function with that of the package.

    After a check that does not hold, the next ones are left out: they would only show the same
    mistake. But the laws of attention often name it. They are left out after an exception.

    Args:
        f: a function with the signature of the exercise.
        examples: how many arguments are tried for each check.
    """
    own = OwnFunction(f, exercise.original)
    named: dict[str, Any] = {"result": partial(checks.result, exercise, f)}
    if exercise.is_op:
        named = {"value": partial(checks.value, exercise, own),
                 "gradient": partial(checks.gradient, exercise, own),
                 "float32": partial(checks.single, exercise, own)}  # fmt: skip
    results: list[Graded] = []
    with np.errstate(all="ignore"):
        for name, check in named.items():
            if any(result.state != "holds" for result in results):
                results.append(Graded(name, _says(check), "left out"))
            else:
                results.append(_search(name, check, exercise, f, examples))
        if not any(result.raised for result in results):
            results += _laws(exercise, own, max(1, examples // SHARE))
    return Grade(exercise, tuple(results))


def _says(check: Any) -> str:
    """The statement of a check: its docstring."""
    return str(check.func.__doc__).rstrip(".")


def _search(name: str, check: Any, exercise: Exercise, f: Any, examples: int) -> Graded:
    """Search for the smallest arguments for which a check does not hold."""
    found = Graded(name, _says(check), "holds")

    @repeatable(examples)
    @given(INPUTS[exercise.name])
    def attempt(arguments: dict[str, Any]) -> None:
        nonlocal found
        raised = False
        try:
            finding: Finding = check(arguments)
        except HypothesisException:
            raise
        except Exception as error:  # whatever the reader's function raises
            finding, raised = Finding(False, about(error, f)), True
        if not finding.holds:
            found = Graded(name, _says(check), "broken", arguments, finding.text, raised=raised)
            raise _Broken

    try:
        attempt()
    except _Broken:
        pass
    except HypothesisException:  # the function is not always the same
        if found.state == "holds":
            raise
    return found


def _laws(exercise: Exercise, own: OwnFunction, examples: int) -> list[Graded]:
    """The laws of attention that name this op, the simplest first, up to the first broken one.

    It tells most about the reason: the next laws would be broken by the same mistake.
    """
    results: list[Graded] = []
    for law in in_order():
        if exercise.function not in law.under_test:
            continue
        if results and results[-1].state == "broken":
            break
        made = check_law(law, own, examples=examples)
        example = made.counterexample
        results.append(Graded(law.name, law.says, made.state,
                              example.arguments if example else {}, example.text if example else "",
                              f"derivations/{law.page}.md"))  # fmt: skip
    return results
