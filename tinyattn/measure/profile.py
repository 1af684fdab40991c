"""Engine room, measuring: a profiler, which shows how a training step spends its time.

Before you make a step faster, find out where its time goes, and how much of it is necessary. So
this file observes some steps. A large matrix product shows the peak rate of a computer, in
multiply-adds a second. The multiply-adds of a step at this rate give the floor (as in the roofline
model): the least time that the step can take.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tinyattn.backend import Array
from tinyattn.data.batches import Batch
from tinyattn.limits import TICK, whole
from tinyattn.measure.memory import traced_memory
from tinyattn.measure.observer import CLIPPING, MAIN, OPTIMIZER, Observer, Row, observed, part
from tinyattn.parallel.shards import ShardedStep
from tinyattn.parallel.threads import executor
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.step import Loss

P = ParamSpec("P")
R = TypeVar("R")

PRODUCT = 1024
"""Rows of the square matrices that measure the peak rate: with more it hardly grows."""


@dataclass(frozen=True)
class Profile:
    """How a step spends its time. All values are for one step, the mean of `steps`."""

    rows: list[Row]  # formulas by falling time, then PARTS; together all the time of threads
    workers: int
    steps: int
    positions: int
    seconds: float  # wall-clock time
    product_rate: float  # peak rate: multiply-adds a second of one worker, while all multiply
    peak_bytes: int  # most memory in use during a step, beyond what was in use before

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds that the ops of a step need."""
        return sum(row.multiply_adds for row in self.rows)

    @property
    def busy(self) -> float:
        """Seconds that all threads compute, the workers and the main thread together."""
        return max(TICK, sum(row.seconds for row in self.rows))

    @property
    def floor(self) -> float:
        """Seconds that the multiply-adds alone would take at the peak rate of all workers."""
        return self.multiply_adds / (self.product_rate * self.workers)

    @property
    def tokens_per_second(self) -> float:
        """Positions per second of wall-clock time."""
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
    """Profile training steps on `batch`. The learning rate is 0, so the parameters stay.

    One more step before is the warm-up. One more after it measures memory, which takes time.

    Args:
        loss, optimizers, clip, workers: as in a Step.
        steps: number of steps to measure.
        on_step: function called with 1 after each step, `steps` + 2 times in all.
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
    """The peak rate of one thread: multiply-adds a second in a large float32 matrix product.

    All threads multiply at once: the best of `rounds` of each, and the mean of these. Call it where
    the BLAS uses one thread for each.
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

    with executor(workers) as threads:
        return sum(threads.map(best, range(workers))) / workers


class _ObservedStep(ShardedStep):
    """A step that also records its parts that are no ops."""

    def __init__(
        self, observer: Observer, loss: Loss, optimizers: list[Optimizer], **options: Any
    ) -> None:
        super().__init__(loss, optimizers, **options)
        self.observer = observer
        self.executor = _ObservedExecutor(observer, self.executor)

    def _clip(self, losses: list[Array]) -> tuple[Array, Array]:
        return self.observer.doing(CLIPPING, functools.partial(super()._clip, losses))

    def _move(self, learning_rate: float) -> None:
        self.observer.doing(OPTIMIZER, functools.partial(super()._move, learning_rate))


class _ObservedExecutor(Executor):
    """The threads of a step, which record the time of their tasks."""

    def __init__(self, observer: Observer, threads: Executor) -> None:
        self.observer, self.threads = observer, threads

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        phase = self.observer.phase

        def task() -> R:
            made, seconds = self.observer.timed(lambda: fn(*args, **kwargs))
            self.observer.notes.append(part(phase, seconds))
            return made

        return self.threads.submit(task)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.threads.shutdown(wait, cancel_futures=cancel_futures)
