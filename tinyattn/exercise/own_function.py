"""Wing, exercise: a reader's function, which computes in place of an op.

As in check/implementation.py, the dispatch (dispatch.py) lets it compute where the op is called: so
gradcheck, the graph and the laws of attention use it as they use the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from tinyattn.backend import Array, is_array
from tinyattn.check.implementation import Called
from tinyattn.dispatch import Function, observers
from tinyattn.theory.conventions import FEATURES, Conventions

CHECKED = Conventions(FEATURES - {"dropout", "empty", "nan"})
"""What the laws may need: an exercise is about the formula, not about its rare cases."""


@dataclass
class OwnFunction:
    """A function f(xp, *arrays, **options) -> (value, vjp), in place of the formula of an op.

    Args:
        f: the function of the reader.
        formula: that of the op, as FORMULAS has it.
    """

    f: Function
    formula: Function
    conventions: Conventions = CHECKED
    calls: list[Called] = field(default_factory=list)  # stays empty: only `check` shows calls
    pauses: int = 0  # while f runs, which may call the op itself

    def can(self, feature: str) -> bool:
        """Whether the laws may need a feature."""
        return feature in self.conventions.supports

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A context in which the op computes by this function."""
        observers.append(self._instead)
        try:
            yield
        finally:
            observers.remove(self._instead)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the op computes by itself again."""
        self.pauses += 1
        try:
            yield
        finally:
            self.pauses -= 1

    def _instead(self, formula: Function, run: Function, reason: str) -> Function:
        """An observer of the dispatch."""
        return run if self.pauses or formula is not self.formula else self._computed

    def _computed(self, xp: Any, *arrays: Any, **options: Any) -> Any:
        """What f returns, with gradients that are checked when they are computed.

        Raises: TypeError if it is None, or the value is no array. For another pair than a value and
        its vjp, `@op` raises the error.
        """
        made = self._run(self.f, xp, *arrays, **options)
        if made is None:
            raise TypeError("the function returned None: does it end with `return`?")
        if not (isinstance(made, tuple) and len(made) == 2):
            return made
        value, vjp = made
        if not is_array(value) and not hasattr(value, "dtype"):
            raise TypeError(f"the value must be an array; got {type(value).__name__}")
        names = [*signature(self.formula).parameters][1:]
        given = [*zip(names, arrays, strict=False)]
        if callable(vjp):
            return value, lambda g: self._checked_all(given, self._run(vjp, g))
        if not isinstance(vjp, tuple) or len(vjp) != len(given):
            return made
        return value, tuple(self._vjp_of(*pair, f) for pair, f in zip(given, vjp, strict=True))

    def _vjp_of(self, name: str, array: Any, f: Any) -> Any:
        """One function of a tuple, with its gradient checked."""

        def gradient(g: Array) -> Any:
            if not callable(f):
                raise TypeError(f"the vjp of {name} must be a function of g; got "
                                f"{type(f).__name__}")  # fmt: skip
            return _checked(name, array, self._run(f, g))

        return gradient if has_gradient(array) else f

    def _checked_all(self, given: list[tuple[str, Any]], made: Any) -> Any:
        if not isinstance(made, tuple) or len(made) != len(given):
            return made
        return tuple(_checked(*pair, dx) if has_gradient(pair[1]) else dx
                     for pair, dx in zip(given, made, strict=True))  # fmt: skip

    def _run(self, f: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self.paused():
            return f(*args, **options)


def has_gradient(array: Any) -> bool:
    """Whether an argument is an array of real numbers."""
    return getattr(getattr(array, "dtype", None), "kind", "") == "f"


def _checked(name: str, array: Array, gradient: Any) -> Any:
    """The gradient of an array. Raises: TypeError unless it has the array's shape and dtype.

    `@op` would sum a gradient that is too large, as it must where an op broadcasts its inputs.
    """
    found, wanted = (f"{a.dtype} {a.shape}" if hasattr(a, "dtype") else type(a).__name__
                     for a in (gradient, array))  # fmt: skip
    if found != wanted:
        raise TypeError(f"the gradient of {name} must be {wanted}, as {name} is; got {found}")
    return gradient
