"""Engine room, measuring: looking on while a step computes.

An observer is told of every op, and of what else there is in a step (PARTS), and notes how long it
took, on how many bytes, with how many multiply-adds (counting.py). It looks at the clock of the
thread's own processor, which stands still while a thread waits; so what several threads note can be
added up. On a GPU calls return before the work is done, and such a clock says nothing. A note costs
some microseconds, which fall between ops: a hundredth of a step of A5's model, a tenth of a tiny
one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tinyattn.backend import Array
from tinyattn.dispatch import Function
from tinyattn.measure.counting import multiply_adds
from tinyattn.op import observers

PARTS = BETWEEN, CLIPPING, OPTIMIZER, MAIN = "between ops", "clipping", "optimizer", "main thread"
"""What a step does beside its ops: the rest of both passes through the model, which is Python, and
gradients of one thing added up; clipping; the update; and, in the thread that called, splitting the
batch and adding up what the workers found."""


class Row(NamedTuple):
    """What one op in one direction, or another part of the work, takes in a step."""

    name: str
    direction: str  # "forward", "backward", or "" for what is no op
    by: str  # see `computed_by`; "" for what has neither
    calls: float  # backward, one for each gradient, or for all of an op whose gradients share work
    seconds: float  # of all threads together
    bytes: float  # in and out; backward, of gradients; 0 if nothing is written, as for a view
    multiply_adds: float


@contextmanager
def observed(observer: Callable[[str, Function, str], Function]) -> Iterator[None]:
    """A context in which every op, in every thread, calls what `observer` makes of its function.

    It gets the op's name, the function and the reason of `dispatch.choose`; what it makes must give
    what the function gives, and may look at the clock before and after, or count.
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

    def observe(self, name: str, function: Function, reason: str) -> Function:
        """The observer for `observed`: notes what ops take in both directions."""
        by = computed_by(reason)

        def run(xp: Any, *arrays: Any, **options: Any) -> Any:
            began = time.thread_time()
            y, vjp = function(xp, *arrays, **options)
            seconds = time.thread_time() - began
            forward, backward = multiply_adds(name, arrays, options, y)
            self.notes.append(Row(name, "forward", by, 1, seconds, _bytes(arrays, (y,)), forward))
            if callable(vjp):
                return y, self._pull(name, by, vjp, sum(backward))
            pulls = [f and self._pull(name, by, f, n) for f, n in zip(vjp, backward, strict=True)]
            return y, tuple(pulls)

        return run

    def _pull(self, name: str, by: str, vjp: Callable[[Array], Any], products: int) -> Any:
        """`vjp`, with a note of what it takes."""

        def pull(g: Array) -> Any:
            began = time.thread_time()
            shares = vjp(g)
            seconds = time.thread_time() - began
            made = shares if isinstance(shares, tuple) else (shares,)
            self.notes.append(Row(name, "backward", by, 1, seconds, _bytes((g,), made), products))
            return shares

        return pull

    @contextmanager
    def doing(self, phase: str) -> Iterator[None]:
        """A part of the main thread's work; the tasks that it hands out belong to it too."""
        before, self.phase, began = self.phase, phase, time.thread_time()
        try:
            yield
        finally:
            seconds, self.phase = time.thread_time() - began, before
            self.notes += [part(phase, seconds), part(MAIN, -seconds)]

    def rows(self, steps: int, main: float) -> list[Row]:
        """The notes of some steps added up, for each of them; `main` is the main thread's time."""
        in_ops = sum(note.seconds for note in self.notes if note.direction)
        groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for note in [*self.notes, part(BETWEEN, -in_ops), part(MAIN, main)]:
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
    """A note about what is no op."""
    return Row(name, "", "", 0, seconds, 0, 0)


def _bytes(read: Iterable[Any], made: Iterable[Any]) -> int:
    """The sizes of all these arrays, or 0 if what was made is only a view of what was read."""
    ins, outs = ([a for a in arrays if hasattr(a, "nbytes")] for arrays in (read, made))
    if all(any(np.may_share_memory(out, a) for a in ins) for out in outs):
        return 0
    return sum(array.nbytes for array in [*ins, *outs])
