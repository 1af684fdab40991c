"""Chapter 4: the training loop.

Take a batch, take a step, log the result, sometimes save a checkpoint. All random numbers depend
only on the seed and the numbers of epoch and step. So a run that was interrupted and resumed ends
with the same bits as one that was not. Next, in chapter 5: text (data/forms.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

from tinyattn.data.batches import Batch
from tinyattn.training.step import Step, StepResult


class Data(Protocol):
    """A data set, whose batches are a pure function of a seed and the number of the epoch."""

    batches_per_epoch: int

    def epoch(self, number: int) -> list[Batch]:
        """The batches of one epoch, `batches_per_epoch` of them."""

    def tokens_before(self, step: int) -> int:
        """How many tokens, PADs included, all steps before this one have processed."""


def train(
    take: Step,
    data: Data,
    schedule: Callable[[int, int], float],
    start: int,
    total: int,
    *,
    log: Callable[[StepResult, float], None] = lambda result, learning_rate: None,
    keep: Callable[[StepResult, bool], None] = lambda result, now: None,
    stop: Callable[[], int] = lambda: 0,
) -> int:
    """Take the steps `start` to `total - 1`; returns how many steps the run has taken in all.

    Args:
        take: the training step.
        data: its batches.
        schedule: (number of a step, tokens before it) -> learning rate.
        log: called after each step with its result and learning rate.
        keep: called after each step with its result; must save a checkpoint if the second argument
            is True, and may save one if it is False.
        stop: called after each step; a result other than 0 ends the loop.
    Raises: FloatingPointError if the loss or the gradient norm of a step is NaN or infinite.
    """
    taken = start
    for step, batch in zip(range(start, total), batches(data, start), strict=False):
        learning_rate = schedule(step, data.tokens_before(step))
        result = take(batch, step, learning_rate)
        taken = step + 1
        log(result, learning_rate)
        stopped = bool(stop())
        keep(result, stopped or taken == total)
        if stopped:
            break
    return taken


def batches(data: Data, start: int) -> Iterator[Batch]:
    """All batches from step `start` on, epoch after epoch, without end."""
    first, index = divmod(start, data.batches_per_epoch)
    for epoch in itertools.count(first):
        yield from data.epoch(epoch)[index:]
        index = 0
