"""Chapter 7: checks and laws.

A *check* is a program that decides whether a statement is true. Its docstring is the statement,
and its domain has all arguments for which the statement must be true. `judge` draws arguments at
random; in the tests Hypothesis searches the domain for some that violate the statement.

A *law* is a check of attention itself. It is true for every correct implementation: the ops of a
model run it, whatever computes them. A page of derivations/ proves it. The other checks are about
embeddings, texts, matrices or costs, and stand beside the claims that need them.

A check measures quantities, such as the weight α_j. So a claim of an answer sheet is often only a
number: `lead_decides.gives("α_j", 1)` says that the α_j of that law is 1, and a witness, arguments
of the law, shows that it is not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyattn.theory.finding import NEARLY, Finding, at_least, at_most, equal
from tinyattn.theory.lab import Domain, Lab, Values

Run = Callable[..., Finding]
"""A function of a Lab and named arguments."""


@dataclass(frozen=True)
class Check:
    """A statement, and the program that checks it.

    Args:
        run: the program; its docstring is the statement.
        domain: for each of its arguments the values for which the statement must be true.
        under_test: the functions of this package whose mistakes it must detect.
    Raises: ValueError if the domain and the arguments of `run` differ.
    """

    run: Run
    domain: Domain
    under_test: tuple[Callable[..., Any], ...]

    def __post_init__(self) -> None:
        arguments = arguments_of(self.run)
        if arguments != [*self.domain]:
            raise ValueError(f"{self.name}: takes {arguments}, but its domain has {[*self.domain]}")

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.run.__name__

    @property
    def says(self) -> str:
        """The statement, in one line."""
        return " ".join((self.run.__doc__ or "").split()).removesuffix(".")

    def __call__(self, lab: Lab, *arguments: Any, **named: Any) -> Finding:
        """Run the program."""
        return self.run(lab, *arguments, **named)

    def gives(self, quantity: str, wanted: Any, within: float = NEARLY) -> Run:
        """The statement that a measured quantity has this value.

        Args:
            quantity: its name, as in the text of the finding.
            wanted: the value, or a function of the arguments.
            within: the largest difference.
        """
        return self._statement(equal, quantity, wanted, within)

    def gives_at_most(self, quantity: str, bound: Any) -> Run:
        """The statement that a measured quantity is not above a bound; see `gives`."""
        return self._statement(at_most, quantity, bound)

    def gives_at_least(self, quantity: str, bound: Any) -> Run:
        """The statement that a measured quantity is not below a bound; see `gives`."""
        return self._statement(at_least, quantity, bound)

    def _statement(self, relation: Run, quantity: str, wanted: Any, *within: float) -> Run:
        """Raises: when it runs, AssertionError if the check itself fails there."""

        @functools.wraps(self.run)
        def statement(lab: Lab, **witness: Any) -> Finding:
            finding = self.run(lab, **witness)
            assert finding.holds, f"{self.name} fails there: {finding.text}"
            value = wanted(**witness) if callable(wanted) else wanted
            return relation(quantity, finding.measured[quantity], value, *within)

        return statement


@dataclass(frozen=True)
class Law(Check):
    """A statement that is true for every correct attention.

    Args:
        page: the file of derivations/ that proves it, without its ending.
        structural: whether it is also true for attention that only approximates the softmax.
    """

    page: str
    structural: bool = False


def check(*under_test: Callable[..., Any], **domain: Values) -> Callable[[Run], Check]:
    """Decorator that makes a function a check: @check(projector, m=Whole(1, 5))."""
    return lambda run: Check(run, domain, under_test)


def law(page: str, *under_test: Callable[..., Any], **domain: Values) -> Callable[[Run], Law]:
    """Decorator that makes a function a law: @law("03_softmax", ops.attention, n=Whole(1, 9))."""
    return lambda run: Law(run, domain, under_test, page)


def structural_law(
    page: str, *under_test: Callable[..., Any], **domain: Values
) -> Callable[[Run], Law]:
    """The same, for a law that is also true for attention that only approximates the softmax."""
    return lambda run: Law(run, domain, under_test, page, structural=True)


def arguments_of(run: Run) -> list[str]:
    """The names of its arguments without the first, the laboratory."""
    return [*inspect.signature(run).parameters][1:]
