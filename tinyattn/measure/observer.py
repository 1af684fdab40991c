"""Engine room, measuring: looking on while a step computes.

An observer is told of every op, of every other formula that may have kernels, and of what else
there is in a step (PARTS), and notes how long it took, on how many bytes, with how many
multiply-adds (counting.py). What is noted inside something else counts there only. It looks at the
clock of the thread's own processor, which stands still while a thread waits; so what several
threads note can be added up. On a GPU calls return before the work is done, and such a clock says
nothing. A note costs some microseconds, which fall between ops: a hundredth of a step of A5's
model, a tenth of a tiny one.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tinyattn.backend import Array
from tinyattn.dispatch import Function, observers
from tinyattn.measure.counting import multiply_adds
from tinyattn.tensor import OPS

R = TypeVar("R")

PARTS = BETWEEN, CLIPPING, OPTIMIZER, MAIN = "between ops", "clipping", "optimizer", "main thread"
"""What a step does beside its ops: the rest of both passes through the model, which is Python, and
gradients of one thing added up; clipping; the update; and, in the thread that called, splitting the
batch and adding up what the workers found."""


class Row(NamedTuple):
    """What one op in one direction, another formula, or a part of the work takes in a step."""

    name: str
    direction: str  # "forward", "backward", or "" for what is no op
    by: str  # see `computed_by`; "" for what is no formula
    calls: float  # backward, one for each gradient, or for all of an op whose gradients share work
    seconds: float  # of all threads together, without what other rows tell
    bytes: float  # in and out; backward, of gradients; 0 if what comes out is a view
    multiply_adds: float


@contextmanager
def observed(observer: Callable[[Function, Function, str], Function]) -> Iterator[None]:
    """A context in which for every formula, in every thread, what `observer` makes is called.

    It gets the formula, who computes it and why not a kernel (`dispatch.choose`); what it makes
    must give what these give, and may look at the clock before and after, or count.
    """
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)


class Observer:
    """Looks on and takes notes. Threads may share it: lists can be appended to in all of them."""

    def __init__(self) -> None:
        self.notes: list[Row] = []
        self.phase = BETWEEN  # what tasks that are handed to the workers now belong to
        self._thread = threading.local()  # how long what is noted inside has taken

    def observe(self, formula: Function, run: Function, reason: str) -> Function:
        """The observer for `observed`: notes what ops take in both directions, and formulas."""
        name, by = formula.__name__, computed_by(reason)
        is_op = getattr(OPS.get(name), "__wrapped__", None) is formula

        def noted(xp: Any, *arrays: Any, **options: Any) -> Any:
            made, seconds = self.timed(lambda: run(xp, *arrays, **options))
            if not is_op:
                self.notes.append(Row(name, "", by, 1, seconds, _bytes(arrays, (made,)), 0))
                return made
            y, vjp = made
            forward, backward = multiply_adds(name, arrays, options, y)
            self.notes.append(Row(name, "forward", by, 1, seconds, _bytes(arrays, (y,)), forward))
            if callable(vjp):
                return y, self._pull(name, by, vjp, sum(backward))
            pulls = [f and self._pull(name, by, f, n) for f, n in zip(vjp, backward, strict=True)]
            return y, tuple(pulls)

        return noted

    def _pull(self, name: str, by: str, vjp: Callable[[Array], Any], products: int) -> Any:
        """`vjp`, with a note of what it takes."""

        def pull(g: Array) -> Any:
            shares, seconds = self.timed(lambda: vjp(g))
            made = shares if isinstance(shares, tuple) else (shares,)
            self.notes.append(Row(name, "backward", by, 1, seconds, _bytes((g,), made), products))
            return shares

        return pull

    def timed(self, run: Callable[[], R]) -> tuple[R, float]:
        """What `run` gives, and the seconds it took without what was noted inside."""
        outside, self._thread.inside = getattr(self._thread, "inside", 0.0), 0.0
        began, total = time.thread_time(), 0.0
        try:
            made = run()
            total = time.thread_time() - began
            return made, total - self._thread.inside
        finally:
            self._thread.inside = outside + total

    def doing(self, phase: str, run: Callable[[], R]) -> R:
        """Do a part of the main thread's work; the tasks that it hands out belong to it too."""
        before, self.phase = self.phase, phase
        made, seconds = self.timed(run)
        self.phase = before
        self.notes.append(part(phase, seconds))
        return made

    def rows(self, steps: int) -> list[Row]:
        """The notes of some steps added up, for each of them."""
        groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for note in [*self.notes, *(part(name, 0.0) for name in PARTS)]:
            groups[note[:3]].append(note)
        sums = {
            key: Row(*key, *(sum(column) / steps for column in list(zip(*group, strict=True))[3:]))
            for key, group in groups.items()
        }
        parts = [sums.pop((name, "", "")) for name in PARTS]
        return sorted(sums.values(), key=lambda row: -row.seconds) + parts


def computed_by(reason: str) -> str:
    """What a reason of `dispatch.choose` means: "kernel", or "formula", and why no kernel."""
    return "formula" if reason == "no kernel" else f"formula: {reason}" if reason else "kernel"


def part(name: str, seconds: float) -> Row:
    """A note about what is no formula."""
    return Row(name, "", "", 0, seconds, 0, 0)


def _bytes(read: Iterable[Any], made: Iterable[Any]) -> int:
    """The sizes of all these arrays, or 0 if what was made is only a view of what was read."""
    ins, outs = ([a for a in _flat(arrays) if hasattr(a, "nbytes")] for arrays in (read, made))
    if outs and all(any(np.may_share_memory(out, a) for a in ins) for out in outs):
        return 0
    return sum(array.nbytes for array in [*ins, *outs])


def _flat(arrays: Iterable[Any]) -> Iterator[Any]:
    """Also what lists of arrays hold."""
    for one in arrays:
        yield from _flat(one) if isinstance(one, list | tuple) else [one]
