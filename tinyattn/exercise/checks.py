"""Wing, exercise: what a function must do, each for arguments that Hypothesis draws."""

from __future__ import annotations

import copy
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import numpy as np

from tinyattn.exercise.exercise import Exercise
from tinyattn.exercise.inputs import Arguments
from tinyattn.exercise.own_function import OwnFunction, has_gradient
from tinyattn.exercise.small_graph import SmallGraph
from tinyattn.gradcheck import gradcheck
from tinyattn.graph import no_grad
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, equal, every, fact, shown

WITHIN = 1e-9
"""The largest difference of equal numbers: a sum may be added in another order."""
MODERATE = 5.0
"""The largest input for finite differences: where results are tiny differences of large numbers,
their rounding errors are larger than their changes."""


def result(exercise: Exercise, f: Callable[..., Any], given: Arguments) -> Finding:
    """It returns what the function of the package returns."""
    found, wanted = (_results(exercise, g, given) for g in (f, exercise.original))
    if missing := wanted.keys() ^ found.keys():
        name = min(missing)
        return Finding(False, f"{name} is {'missing' if name in wanted else 'too much'}")
    return every(*(_same(name, found[name], wanted[name]) for name in wanted))


def value(exercise: Exercise, own: OwnFunction, given: Arguments) -> Finding:
    """Its value y is that of the formula."""
    with own.in_use(), no_grad():
        y = exercise.function(**fresh(given))
    return _same("y", y, exercise.original(np, **fresh(given))[0])


def gradient(exercise: Exercise, own: OwnFunction, given: Arguments) -> Finding:
    """Its gradients predict how y changes if its inputs change a little (finite differences)."""
    names = _leaves(exercise, given)
    if any(np.abs(given[name]).max(initial=0) > MODERATE for name in names):
        return Finding(True, "")

    def compute(*leaves: Any) -> Tensor:
        y: Tensor = exercise.function(**fresh(given) | dict(zip(names, leaves, strict=True)))
        return y

    with own.in_use():
        try:
            gradcheck(compute, *(given[name] for name in names), directions=1)
        except AssertionError as error:
            if not str(error).startswith("gradcheck: "):
                raise  # an assertion of the reader
            return Finding(False, _wrong_gradient(compute, names, own, given) or str(error))
    return Finding(True, "")


def single(exercise: Exercise, own: OwnFunction, given: Arguments) -> Finding:
    """For inputs of float32, y and the gradients are float32."""
    names = _leaves(exercise, given)
    low = {n: a.astype(np.float32) if has_gradient(a) else a for n, a in fresh(given).items()}
    with own.in_use():
        y = exercise.function(**low | {n: Tensor(low[n], requires_grad=True) for n in names})
        if y.dtype == np.float32:
            y.backward(np.ones(y.shape, np.float32))  # raises if a gradient has another dtype
    return fact(y.dtype == np.float32, "", f"y is {y.dtype}")


def fresh(given: Arguments) -> Arguments:
    """A copy of the arguments: a function may change its own, and a DropoutRNG counts its calls."""
    return {name: x if isinstance(x, Tensor) else copy.deepcopy(x) for name, x in given.items()}


def _leaves(exercise: Exercise, given: Arguments) -> list[str]:
    """The names of the arguments that have a gradient."""
    parameters = exercise.signature.parameters
    return [name for name, x in given.items()
            if has_gradient(x) and parameters[name].kind is not Parameter.KEYWORD_ONLY]  # fmt: skip


def _wrong_gradient(
    compute: Callable[..., Tensor], names: list[str], own: OwnFunction, given: Arguments
) -> str:
    """For the first element of y whose gradients are wrong: these, and the right ones; or ""."""

    def gradients(g: np.ndarray) -> list[Any]:
        leaves = [Tensor(given[name], requires_grad=True) for name in names]
        y = compute(*leaves)
        y.backward(g)
        return [leaf.grad for leaf in leaves]

    with no_grad():
        shape = compute(*(given[name] for name in names)).shape
    for i in range(int(np.prod(shape))):
        g = np.zeros(shape)
        g.flat[i] = 2  # with 1, a vjp that forgets g might look right
        found = gradients(g)
        with own.paused():
            wanted = gradients(g)
        finding = every(*(_same(f"d{name}", *pair) for name, *pair in
                          zip(names, found, wanted, strict=True)))  # fmt: skip
        if not finding.holds:
            return f"for g = {shown(g)}: {finding.text}"
    return ""


def _results(exercise: Exercise, f: Callable[..., Any], given: Arguments) -> dict[str, Any]:
    """What a function that is no op returns, and the arrays that it must change, by name."""
    given = fresh(given)
    for name, x in given.items():
        if isinstance(x, np.ndarray) and name not in exercise.changes:
            x.flags.writeable = False
    if isinstance(given.get("start"), SmallGraph):
        return given.pop("start").gradients(f, **given)  # type: ignore[no-any-return]
    first = next(iter(exercise.signature.parameters))
    returned = f(np, **given) if first == "xp" else f(**given)
    found = {"the result": returned}
    for name in exercise.changes:
        arrays = given[name] if isinstance(given[name], list) else [given[name]]
        found |= {f"{name} {i} afterwards" if len(arrays) > 1 else f"{name} afterwards": a
                  for i, a in enumerate(arrays)}  # fmt: skip
    return found


def _same(what: str, got: Any, wanted: Any) -> Finding:
    """Whether two arrays have the same numbers, and the same kind of numbers."""
    if got is None or wanted is None:
        hint = ": does the function end with `return`?" if got is None else ""
        return fact(got is wanted, "", f"{what} is {got} instead of {wanted}{hint}")
    kinds = [x.dtype if isinstance(x, Tensor) else np.asarray(x).dtype for x in (got, wanted)]
    if kinds[0] != kinds[1]:
        return Finding(False, f"{what} is {kinds[0]} instead of {kinds[1]}")
    return equal(what, got, wanted, WITHIN)
