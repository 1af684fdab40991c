"""Chapter 4: the training loop.

Take a batch, take a step, write down what happened, now and then keep a checkpoint. All that is
random follows from the seed and the number of the step, so a run that was interrupted and resumed
ends with the same bits as one that was not. Next: letters that look the same (data/forms.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

from tinyattn.data.batches import Batch
from tinyattn.training.step import Step, StepResult


class Data(Protocol):
    """Where batches come from: a pure function of a seed and the number of the epoch."""

    batches_per_epoch: int

    def epoch(self, number: int) -> list[Batch]:
        """The batches of one epoch, `batches_per_epoch` of them."""

    def tokens_before(self, step: int) -> int:
        """How many tokens, PADs included, the steps before this one have read."""


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
    """Take the steps from number `start` on, before `total`; returns how many are taken now.

    Args:
        schedule: (number of a step, tokens before it) -> its learning rate.
        log: told what each step measured, and its learning rate.
        keep: may keep a checkpoint after each step; it is to, if it is told True.
        stop: asked after each step whether to stop: 0 for no.
    Raises: FloatingPointError if the loss of a step is not a number.
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
    """All batches from step `start` on, epoch after epoch without end."""
    first, index = divmod(start, data.batches_per_epoch)
    for epoch in itertools.count(first):
        yield from data.epoch(epoch)[index:]
        index = 0
