"""Chapter 8, continued: the training loop.

Take a batch, take a step, write down what happened, now and then keep a checkpoint. All that is
random follows from the seed and the number of the step, so a run that was interrupted and resumed
ends with the same bits as one that was not. Next: an optimiser for matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from tinyattn.data.batches import Batch
from tinyattn.training.signals import Interrupted, named
from tinyattn.training.step import Step

if TYPE_CHECKING:
    from tinyattn.training.keep import Keeper
    from tinyattn.training.metrics import Log
    from tinyattn.training.schedule import Schedule


class Data(Protocol):
    """Where batches come from: a pure function of a seed and the number of the epoch."""

    batches_per_epoch: int

    def epoch(self, number: int) -> list[Batch]:
        """The batches of one epoch, `batches_per_epoch` of them."""

    def tokens_before(self, step: int) -> int:
        """How many tokens, PADs included, the steps before this one have read."""


def train(
    take: Step, data: Data, schedule: Schedule, start: int, total: int, log: Log, keeper: Keeper,
    *, stop: Callable[[], int], measure: Callable[[], dict[str, float]] | None = None,
    measure_every: int = 0, on_step: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> None:  # fmt: skip
    """Take the steps from number `start` on, up to `total`. Other arguments: see `Fit`.

    Args: stop: asked after each step; gives the number of a signal to stop, or 0.
    Raises: Interrupted after such a signal, TrainingFailed if the loss is not a number.
    """
    number = start
    for step, batch in zip(range(start, total), batches(data, start), strict=False):
        learning_rate = schedule(step, data.tokens_before(step))
        number, last = step + 1, step + 1 == total
        measured = measure is not None and (last or number % max(1, measure_every) == 0)
        due = log.due(number, total, always=last or measured)
        with keeper.failures():
            result = take(batch, step, learning_rate)
            if due:  # on a GPU to ask is to wait, so not at every step
                result.check()
        log.took(result)
        entry: dict[str, Any] = {}
        if due:
            more = measure() if measure and measured else {}
            entry = log.add(result, step // data.batches_per_epoch + 1, learning_rate, more)
        on_step(entry)
        stopped = stop()
        if last or stopped or keeper.due:
            with keeper.failures():
                result.check()
            keeper.save(number, total)
        if stopped:
            break
    if stopped := stop():  # asked once more: nobody goes on before the first has written
        raise Interrupted(f"stopped{named(stopped)} after step {number} of {total}", stopped)


def batches(data: Data, start: int) -> Iterator[Batch]:
    """All batches from step `start` on, epoch after epoch without end."""
    first, index = divmod(start, data.batches_per_epoch)
    for epoch in itertools.count(first):
        yield from data.epoch(epoch)[index:]
        index = 0
