"""Engine room, measuring: what a step spends its time on.

Before making a step faster one should know where its time goes, and how much of it must be. So
here steps are taken under observation. A computer does some number of multiply-adds a second at
best, as a large matrix product shows; what a step needs, at this rate, is the floor that it cannot
get below.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tinyattn.backend import Array
from tinyattn.data.batches import Batch
from tinyattn.limits import TICK, whole
from tinyattn.measure.memory import traced_memory
from tinyattn.measure.observer import CLIPPING, MAIN, OPTIMIZER, Observer, Row, observed, part
from tinyattn.parallel.shards import ShardedStep
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.step import Loss

P = ParamSpec("P")
R = TypeVar("R")

PRODUCT = 1024
"""Rows of the square matrices that show the rate of products: with more it hardly grows."""


@dataclass(frozen=True)
class Profile:
    """Where the time of a step goes: all numbers are for one, the mean of `steps`."""

    rows: list[Row]  # formulas by falling time, then PARTS; together all that threads compute
    workers: int
    steps: int
    positions: int
    seconds: float  # on the clock
    product_rate: float  # multiply-adds a second of one worker, while all multiply
    peak_bytes: int  # most memory in use during a step, beyond what was in use before

    @property
    def multiply_adds(self) -> float:
        """How many the ops of a step need."""
        return sum(row.multiply_adds for row in self.rows)

    @property
    def busy(self) -> float:
        """Seconds that threads compute, the workers and the main thread that adds up for them."""
        return max(TICK, sum(row.seconds for row in self.rows))

    @property
    def floor(self) -> float:
        """Seconds on the clock that these alone would take, shared by all workers."""
        return self.multiply_adds / (self.product_rate * self.workers)

    @property
    def tokens_per_second(self) -> float:
        """Positions a second, on the clock."""
        return self.positions / self.seconds

    def as_dict(self) -> dict[str, Any]:
        """The profile under the names that other programs rely on."""
        return {
            **asdict(self),
            "rows": [row._asdict() for row in self.rows],
            "busy_seconds": self.busy,
            "multiply_adds": self.multiply_adds,
            "floor_seconds": self.floor,
            "tokens_per_second": self.tokens_per_second,
        }


def profile_step(
    loss: Loss,
    optimizers: list[Optimizer],
    batch: Batch,
    *,
    steps: int = 5,
    clip: float = 1.0,
    workers: int | None = None,
    on_step: Callable[[int], None] = lambda count: None,
) -> Profile:
    """Take steps on `batch` and look on. The learning rate is 0: the parameters stay.

    One step before warms up, and one after is for memory alone, which takes time to measure.

    Args:
        loss, optimizers, clip, workers: as a Step has them.
        on_step: is told of each step, `steps` + 2 in all.
    """
    whole("steps", steps, 1)
    observer = Observer()
    with _ObservedStep(observer, loss, optimizers, clip=clip, workers=workers) as take:

        def step(number: int) -> int:
            positions = take(batch, number, 0.0).positions
            on_step(1)
            return positions

        positions = step(0)
        rate = product_rate(take.workers)
        observer.notes.clear()
        began = time.perf_counter()
        with observed(observer.observe):
            _, own = observer.timed(lambda: [step(number) for number in range(steps)])
        seconds = max(TICK, time.perf_counter() - began)
        observer.notes.append(part(MAIN, own))
        rows = observer.rows(steps)
        rate = max(rate, product_rate(take.workers))
        with traced_memory() as grown:
            step(steps)
            peak = grown()[1]
    return Profile(rows, take.workers, steps, positions, seconds / steps, rate, peak)


def product_rate(workers: int, rounds: int = 5) -> float:
    """Multiply-adds a second of one thread in a large product of float32, while all multiply.

    The best of some rounds, the mean of the threads. Call it where BLAS uses one thread for each.
    """
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, PRODUCT, PRODUCT), np.float32)

    def best(worker: int) -> float:
        out, taken = np.empty_like(a), []
        for _ in range(rounds):
            began = time.thread_time()
            np.matmul(a, b, out=out)
            taken.append(time.thread_time() - began)
        return PRODUCT**3 / max(TICK, min(taken))

    with ThreadPoolExecutor(workers) as executor:
        return sum(executor.map(best, range(workers))) / workers


class _ObservedStep(ShardedStep):
    """A step that notes what is no op."""

    def __init__(
        self, observer: Observer, loss: Loss, optimizers: list[Optimizer], **options: Any
    ) -> None:
        super().__init__(loss, optimizers, **options)
        self.observer = observer
        self.executor = _ObservedExecutor(observer, self.workers)

    def _clip(self, losses: list[Array]) -> tuple[Array, Array]:
        return self.observer.doing(CLIPPING, functools.partial(super()._clip, losses))

    def _move(self, learning_rate: float) -> None:
        self.observer.doing(OPTIMIZER, functools.partial(super()._move, learning_rate))


class _ObservedExecutor(ThreadPoolExecutor):
    """Worker threads that note what their tasks take."""

    def __init__(self, observer: Observer, workers: int) -> None:
        super().__init__(workers)
        self.observer = observer

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        phase = self.observer.phase

        def task() -> R:
            made, seconds = self.observer.timed(lambda: fn(*args, **kwargs))
            self.observer.notes.append(part(phase, seconds))
            return made

        return super().submit(task)
