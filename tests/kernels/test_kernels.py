"""Each kernel gives the results of its formula: one test for all of `dispatch.KERNELS`.

The truth is the formula in float64. The error of a kernel may be three times that of the formula in
the dtype of the call, plus some units in the last place of the terms of its sums. Value and each
gradient are compared separately, for any order in memory, and with tiles so small that there are
several.
"""

import contextlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gpu import there_is_one
from hypothesis import given, settings
from kernels.calls import CASES, Call, Numbers
from numpy.testing import assert_array_equal

import tinyattn.parallel.shards
import tinyattn.training  # noqa: F401  (both have formulas of their own)
from tinyattn import formulas
from tinyattn.backend import asnumpy, device_of, get_device, is_array
from tinyattn.dispatch import FORMULAS, KERNELS, ROOMS, Kernel, choose
from tinyattn.kernels.cpu import pairs, sums, tiles
from tinyattn.tensor import OPS

ULPS = {"float32": 8, "float64": 4096}  # of float64, together about 1e-12
NUDGE = 2.0**-24
"""The relative change of values, to measure the effect of a rounding error."""

# Once NumPy warned of an invalid value in a product of finite numbers, and not when the same call
# was repeated (as in numpy/numpy#24067, an error of OpenBLAS). Here all numbers are compared.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")

Function = Callable[..., Any]
Found = dict[str, Any]

TABLE = sorted(KERNELS)
WALK = [
    pytest.param(name, room, id=f"{name}-{room}", marks=[pytest.mark.gpu] * (room == "cuda"))
    for name, room in TABLE
    if room != "cuda" or there_is_one()
]


@pytest.mark.parametrize("name", sorted({name for name, _ in TABLE}))
def test_a_kernel_has_a_formula_and_drawn_calls(name: str) -> None:
    assert name in FORMULAS, f"{name}: a kernel needs a formula: @op or @dispatched in the book"
    assert name in CASES, f"{name}: write a strategy of its calls in tests/kernels/calls.py"


def test_the_first_room_that_takes_a_call_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two kernels, of which the first takes one number only."""

    def half(xp: Any, x: Any) -> str:
        return "formula"

    monkeypatch.setitem(FORMULAS, "half", half)
    for room, why_not in (("numba", lambda xp, x: "" if x == 1 else "not one"), ("cpu", None)):
        kernel = Kernel(lambda xp, x, room=room: room, why_not)
        monkeypatch.setitem(KERNELS, ("half", room), kernel)
    chosen = [choose(half, "cpu", (np, x), {})[0](np, x) for x in (1, 2)]
    assert chosen == ["numba", "cpu"]
    with formulas("numba"):
        assert choose(half, "cpu", (np, 1), {})[0](np, 1) == "cpu"
    with formulas():
        assert choose(half, "cpu", (np, 1), {}) == (half, "switched off")
    monkeypatch.delitem(KERNELS, ("half", "cpu"))
    assert choose(half, "cpu", (np, 2), {}) == (half, "not one")


@pytest.mark.parametrize(("name", "room"), TABLE)
def test_a_kernel_is_called_as_its_formula(name: str, room: str) -> None:
    """Names, defaults, annotations, and positional or keyword, of all parameters."""
    both = (inspect.signature(f) for f in (KERNELS[name, room].run, FORMULAS[name]))
    mine, theirs = (list(signature.parameters.values()) for signature in both)
    assert mine == theirs


@pytest.mark.parametrize(("name", "room"), WALK)
def test_a_kernel_gives_the_results_of_its_formula(name: str, room: str) -> None:
    asked: Counter[bool] = Counter()
    run, why_not = KERNELS[name, room]
    device = "cpu" if room in ROOMS["cpu"] else room

    def holds(call: Call) -> None:
        xp = get_device(device).xp
        arguments, options = call.on(device)
        if room == "numba" and any(a.dtype == np.float64 for a in call.arrays()):
            return  # the kernel of NumPy computes these
        reason = why_not(xp, *arguments, **options) if why_not else ""
        asked[bool(reason)] += 1
        if reason:
            assert isinstance(reason, str) and len(reason.split()) <= 7
        else:
            check_call(name, run, device, call)

    settings(max_examples=2 * settings().max_examples)(given(CASES[name])(holds))()
    assert asked[False] >= 4 * asked[True], "fewer than 4 of 5 calls are taken by the kernel"


@pytest.mark.parametrize("name", sorted({name for name, _ in TABLE}))
def test_a_formula_gives_the_same_on_the_strict_device(name: str) -> None:
    """It has no kernels, and its arrays behave as on a GPU (tests/strict)."""

    def holds(call: Call) -> None:
        check_call(name, FORMULAS[name], "strict", call)

    given(CASES[name])(holds)()


def check_call(name: str, run: Function, device: str, call: Call) -> None:
    """Raises: AssertionError if a kernel does not give the results of its formula."""
    formula = FORMULAS[name]
    with np.errstate(all="ignore"):  # float32 may overflow where the truth does not
        truth = outcome(name, formula, "cpu", call, np.float64)
        plain = outcome(name, formula, "cpu", call)
        moved = outcome(name, formula, "cpu", call, nudged)
        terms = sizes_of_terms(call, truth)
    finite = all(np.isfinite(a).all() for a in call.arrays())
    sizes = [contextlib.nullcontext, *([small_tiles] if device == "cpu" else [])]
    for size in sizes:
        with size(), contextlib.nullcontext() if finite else np.errstate(invalid="ignore"):
            mine = outcome(name, run, device, call)
        assert mine.keys() == plain.keys()
        for i, (label, found) in enumerate(mine.items()):
            message = f"{label} of {name} on {device} of {call}: "
            if call.zeros and i < len(call.zeros) and call.zeros[i] is not None:
                assert not found[call.zeros[i]].any(), f"{message}not 0 where nothing counts"
            largest = terms[i] if i < len(terms) else 0
            alike(message, largest, *(side[label] for side in (mine, plain, truth, moved)))
    with size(), contextlib.nullcontext() if finite else np.errstate(invalid="ignore"):
        again = outcome(name, run, device, call)
    for label, found in mine.items():
        assert same_bits(found, again[label]), f"{label} of {name} of {call}: other bits"


@contextlib.contextmanager
def small_tiles() -> Iterator[None]:
    """Make tiles so small that every call needs several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE", 150)
        patch.setattr(tiles, "SMALL", 0)
        patch.setattr(pairs, "QUERIES", (13, 13))
        patch.setattr(pairs, "KEYS", 11)
        patch.setattr(sums, "PIECE", 5)
        yield


# One side ----------------------------------------------------------------------------------


def outcome(name: str, function: Function, device: str, call: Call, change: Any = None) -> Found:
    """The results, on the host; checks that nothing else has changed.

    For an op the value and its gradients, otherwise results and arguments, which may be changed.
    """
    xp = get_device(device).xp
    arguments, options = call.on(device, change)
    if name not in OPS:
        results = function(xp, *arguments, **options)
        return labelled("result", results, device) | labelled("argument", arguments, device)
    y, vjp = function(xp, *arguments, **options)
    y = y if is_array(y) else np.asarray(y)
    assert device_of(y).name == device
    assert call.g is not None
    given_g = call.g(tuple(y.shape))
    g = (Numbers(change(given_g.values)) if change else given_g).on(device)
    u = asnumpy(g).copy()
    gradients = pulled(vjp, g)
    if change is None:
        for first, second in zip(gradients, pulled(vjp, g), strict=True):
            assert same_bits(host(first), host(second)), f"{name}: backward twice, other bits"
    found = {"value": host(y)}
    for i, (array, gradient) in enumerate(zip(arguments, gradients, strict=True)):
        if not (is_array(array) and array.dtype.kind == "f"):
            assert gradient is None or array is None
            continue
        assert device_of(gradient).name == device if is_array(gradient) else device == "cpu"
        found[f"gradient {i}"] = summed_to(array.shape, host(gradient))
    before, untouched = call.on(device, change)
    for now, then in zip([*arguments, *options.values()], [*before, *untouched.values()],
                         strict=True):  # fmt: skip
        if is_array(now):
            assert same_bits(asnumpy(now), asnumpy(then)), f"{name}: an argument has changed"
    assert same_bits(asnumpy(g), u), f"{name}: the gradient of the result has changed"
    return found


def pulled(vjp: Any, g: Any) -> list[Any]:
    return list(vjp(g)) if callable(vjp) else [f(g) if f else None for f in vjp]


def host(a: Any) -> np.ndarray | None:
    return None if a is None else np.array(asnumpy(a) if is_array(a) else a)


def labelled(label: str, found: Any, device: str) -> Found:
    """The scalars and arrays of a nested list, by their places."""
    if isinstance(found, (list, tuple)):
        return {name: a for i, one in enumerate(found)
                for name, a in labelled(f"{label} {i}", one, device).items()}  # fmt: skip
    if is_array(found):
        assert device_of(found).name == device
        return {label: host(found)}
    if isinstance(found, np.generic):  # NumPy returns it for an array without axes
        return {label: np.asarray(found)}
    return {label: found} if isinstance(found, float) else {}


def summed_to(shape: tuple[int, ...], gradient: np.ndarray | None) -> np.ndarray:
    """The gradient of an operand that was broadcast."""
    assert gradient is not None
    dtype = gradient.dtype
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0, dtype=float)
    for axis, n in enumerate(shape):
        if n == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True, dtype=float)
    return gradient.astype(dtype)


def nudged(values: np.ndarray) -> np.ndarray:
    """In float64, with a small relative change of each element."""
    rng = np.random.default_rng(values.size)
    return values.astype(float) * (1 + NUDGE * rng.uniform(-1, 1, values.shape))


# Comparing ---------------------------------------------------------------------------------


def same_bits(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)  # sums over all elements are scalars
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def sizes_of_terms(call: Call, truth: Found) -> list[Any]:
    """The size of the terms of the sums of each result."""
    if call.terms is None:
        return []
    arguments, _ = call.on("cpu", np.float64)
    if call.g is not None:
        arguments.append(call.g(truth["value"].shape).values.astype(float))
    return call.terms(*arguments)


def alike(message: str, terms: Any, mine: Any, plain: Any, truth: Any, moved: Any) -> None:
    """Raises: AssertionError if `mine` is farther from the truth than it may be.

    Args: terms: the size of the terms of its sums, if larger than `truth`.
    """
    if isinstance(plain, float):  # a kernel may leave it on the device
        mine, truth, moved = (np.asarray(a) for a in (mine, truth, moved))
        plain = np.asarray(plain, mine.dtype)
    assert (mine.shape, mine.dtype) == (plain.shape, plain.dtype), f"{message}shape or precision"
    if mine.dtype.kind != "f":
        assert_array_equal(mine, plain, message)
        return
    assert_array_equal(np.isnan(mine), np.isnan(truth), f"{message}NaN")
    infinite, number = np.isinf(truth), np.isfinite(truth)
    assert_array_equal(mine[infinite], truth[infinite], f"{message}∞")

    def off(side: np.ndarray) -> float:
        """The largest error that is not NaN."""
        with np.errstate(all="ignore"):
            errors = np.abs(side.astype(float) - truth)
        return float(errors[np.isfinite(errors) & number].max(initial=0))

    ulp, largest = np.finfo(mine.dtype).eps, np.abs(truth[number]).max(initial=0)
    matters = max(off(moved) / NUDGE, largest, float(np.nanmax(terms, initial=0)))
    allowed = 3 * off(plain) + ULPS[mine.dtype.name] * ulp * matters
    assert off(mine) <= allowed, f"{message}off by {off(mine):.3g}; {allowed:.3g} is allowed"
