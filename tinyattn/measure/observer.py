"""Engine room, measuring: the observer of a profiler, which records what each operation takes.

The dispatch calls an observer for every op, and for every other formula that may have kernels; the
step calls it for its other parts (PARTS). The observer records the time, the bytes and the
multiply-adds (counting.py) of each. The time of a record inside another one counts only there. The
clock is that of the thread (`time.thread_time`), which stops while a thread waits, so the times of
several threads can be added. On a GPU, calls return before the work is done, and such times mean
nothing. A record takes some microseconds between ops: a hundredth of a step of A5's model
(assignment 5 of Stanford CS224N), a tenth of a tiny model's step.
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
from tinyattn.dispatch import KERNELS, Function, observers
from tinyattn.measure.counting import multiply_adds
from tinyattn.tensor import OPS

R = TypeVar("R")

PARTS = BETWEEN, CLIPPING, OPTIMIZER, MAIN = "between ops", "clipping", "optimizer", "main thread"
"""The parts of a step that are no ops: the rest of both passes through the model, which is Python
and the sums of gradients of one array; gradient clipping; the update; and, in the main thread,
splitting the batch and adding the gradients of the workers."""


class Row(NamedTuple):
    """What an op in one direction, another formula, or a part of PARTS takes in a step."""

    name: str
    direction: str  # "forward", "backward", or "" for what is no op
    by: str  # see `computed_by`; "" for PARTS
    calls: float  # backward: one for each gradient, or one for all if they share work
    seconds: float  # of all threads together, without those of other rows
    bytes: float  # read and written; backward: of gradients; 0 if the result is a view
    multiply_adds: float


@contextmanager
def observed(observer: Callable[[Function, Function, str], Function]) -> Iterator[None]:
    """A context in which every formula, in every thread, runs the function of an observer.

    Args: observer: gets the formula, the function that computes it, and why no kernel does
        (`dispatch.choose`). It returns a function with the same results, which may also measure.
    """
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)


class Observer:
    """Records what calls take. Threads may share it: all of them may append to a list."""

    def __init__(self) -> None:
        self.notes: list[Row] = []
        self.phase = BETWEEN  # the part to which new tasks of the workers belong
        self._thread = threading.local()  # seconds of the records inside

    def observe(self, formula: Function, run: Function, reason: str) -> Function:
        """The observer for `observed`: records ops in both directions, and other formulas."""
        name, by = formula.__name__, computed_by(run, reason)
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
        """`vjp`, with a record of each call."""

        def pull(g: Array) -> Any:
            parts, seconds = self.timed(lambda: vjp(g))
            made = parts if isinstance(parts, tuple) else (parts,)
            self.notes.append(Row(name, "backward", by, 1, seconds, _bytes((g,), made), products))
            return parts

        return pull

    def timed(self, run: Callable[[], R]) -> tuple[R, float]:
        """The result of `run`, and its seconds without those of the records inside."""
        outside, self._thread.inside = getattr(self._thread, "inside", 0.0), 0.0
        began, total = time.thread_time(), 0.0
        try:
            made = run()
            total = time.thread_time() - began
            return made, total - self._thread.inside
        finally:
            self._thread.inside = outside + total

    def doing(self, phase: str, run: Callable[[], R]) -> R:
        """Run a part of the main thread's work; the tasks that it submits belong to this part."""
        before, self.phase = self.phase, phase
        made, seconds = self.timed(run)
        self.phase = before
        self.notes.append(part(phase, seconds))
        return made

    def rows(self, steps: int) -> list[Row]:
        """The records added up, for one step: the mean of `steps`."""
        groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for note in [*self.notes, *(part(name, 0.0) for name in PARTS)]:
            groups[note[:3]].append(note)
        sums = {
            key: Row(*key, *(sum(column) / steps for column in list(zip(*group, strict=True))[3:]))
            for key, group in groups.items()
        }
        parts = [sums.pop((name, "", "")) for name in PARTS]
        return sorted(sums.values(), key=lambda row: -row.seconds) + parts


def computed_by(run: Function, reason: str) -> str:
    """For what `dispatch.choose` returned: the kernel, or "formula" and why no kernel computed.

    A kernel is named by its room, such as "numba kernel", because a device may have several.
    """
    if reason:
        return "formula" if reason == "no kernel" else f"formula: {reason}"
    rooms = [room for (_, room), kernel in KERNELS.items() if kernel.run is run]
    return " ".join([*rooms, "kernel"])


def part(name: str, seconds: float) -> Row:
    """A record of a part of PARTS."""
    return Row(name, "", "", 0, seconds, 0, 0)


def _bytes(read: Iterable[Any], made: Iterable[Any]) -> int:
    """The bytes of all these arrays, or 0 if the results are only views of the inputs."""
    ins, outs = ([a for a in _flat(arrays) if hasattr(a, "nbytes")] for arrays in (read, made))
    if outs and all(any(np.may_share_memory(out, a) for a in ins) for out in outs):
        return 0
    return sum(array.nbytes for array in [*ins, *outs])


def _flat(arrays: Iterable[Any]) -> Iterator[Any]:
    """The arrays, also those in lists and tuples."""
    for one in arrays:
        yield from _flat(one) if isinstance(one, list | tuple) else [one]
