"""Wing, check: all laws for one attention, and what they say about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyattn.check.implementation import Implementation
from tinyattn.check.report import as_text
from tinyattn.check.search import Checked, check_law
from tinyattn.theory.conventions import EXPECTED, KEYWORDS, Conventions
from tinyattn.theory.law import Law
from tinyattn.theory.laws import LAWS

FIRST = ("basics", "attention", "invariance")
"""The files of laws that are checked first: an error breaks the simplest law first."""


@dataclass(frozen=True)
class Conformance:
    """The results of all laws for one attention.

    Args:
        name: of the function under test.
        results: in the order in which the laws were checked.
    """

    name: str
    module: str
    results: tuple[Checked, ...]

    @property
    def broken(self) -> list[Checked]:
        """The laws that it breaks; the first one tells most about the reason."""
        return [result for result in self.results if result.state == "broken"]

    @property
    def ok(self) -> bool:
        """Whether it breaks no law."""
        return not self.broken

    def counts(self) -> dict[str, int]:
        """The number of laws by state: holds, broken, left out."""
        states = [result.state for result in self.results]
        return {state: states.count(state) for state in ("holds", "broken", "left out")}

    def __str__(self) -> str:
        return as_text(self)


def in_order() -> list[Law]:
    """All laws, the simplest first."""

    def place(law: Law) -> int:
        file = law.run.__module__.rpartition(".")[2]
        return FIRST.index(file) if file in FIRST else len(FIRST)

    return sorted(LAWS.values(), key=place)


def expected(f: Callable[..., Any]) -> frozenset[str]:
    """What a function is expected to support: EXPECTED, but only the keywords that it has."""
    names = keywords(f)
    return EXPECTED if names is None else EXPECTED - (KEYWORDS - {*names})


def keywords(f: Callable[..., Any]) -> list[str] | None:
    """The keywords of a function after q, k and v; None if it takes any, or does not say."""
    try:
        parameters = [*inspect.signature(f).parameters.values()]
    except (TypeError, ValueError):  # compiled functions may have no signature
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    given = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return given[3:]


def check_attention(
    f: Callable[..., Any],
    supports: Collection[str] | None = None,
    *,
    arrays: str = "numpy",
    mask: str = "allowed",
    no_key: str = "zeros",
    causal_from: str = "end",
    vjp: Callable[..., Any] | None = None,
    laws: Iterable[Law] | None = None,
    examples: int = 40,
    on_result: Callable[[Checked], None] = lambda result: None,
) -> Conformance:
    """Search for arrays on which an attention breaks a law.

    Shapes:  f(q, k, v): q (.., T, D), k (.., S, D), v (.., S, E) -> (.., T, E)
    Raises:  ValueError for a name that does not exist; ImportError if the library of the arrays is
             not installed

    Args:
        f: the attention, with the keywords `mask` (.., T, S), `causal` (bool), `scale` (float) and
            `dropout` (float), as far as it supports them; they are given only if they are needed.
        supports: features of tinyattn.theory.conventions.FEATURES; by default `expected`. A law
            that needs another feature is left out.
        arrays: the library of its arrays: numpy, torch, jax or cupy.
        mask: allowed (True = may attend), masked (True = may not), or additive (0 and -∞).
        no_key: what a query gets that may attend to no key: zeros, mean (of all values) or nan.
        causal_from: if T and S differ, where the causal mask is aligned: end or start.
        vjp: for `grad` with NumPy or CuPy: vjp(q, k, v, g, **keywords) -> dq, dk, dv.
        laws: all by default.
        examples: how many arguments are tried for each law.
        on_result: called with each result.
    """
    supported = expected(f) if supports is None else frozenset(supports)
    conventions = Conventions(supported, no_key, causal_from)
    implementation = Implementation(f, conventions, arrays, mask, vjp)
    results = []
    for law in in_order() if laws is None else laws:
        if law.structural or implementation.can("exact"):
            results.append(check_law(law, implementation, examples=examples))
        else:
            results.append(Checked(law, "left out", 0.0, "exact"))
        on_result(results[-1])
    name = getattr(f, "__name__", type(f).__name__)
    module = Path(str(getattr(f, "__module__", type(f).__module__))).name.removesuffix(".py")
    return Conformance(name, module, tuple(results))


def parametrize_with_laws(f: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A decorator for a pytest test with the argument `law_holds`, which it should call.

    The test runs once for each law; `options` are those of `check_attention`.

        @parametrize_with_laws(my_attention, supports={"exact", "mask", "float64"})
        def test_attention(law_holds):
            law_holds()
    """
    import pytest

    def holds(law: Law) -> Callable[[], None]:
        def run() -> None:
            found = check_attention(f, *args, laws=[law], **options)
            if found.results[0].state == "left out":
                pytest.skip(f"needs {found.results[0].why}")
            assert found.ok, str(found)

        return run

    laws = options.pop("laws", None) or in_order()
    names = [law.name for law in laws]
    return pytest.mark.parametrize("law_holds", [holds(law) for law in laws], ids=names)
