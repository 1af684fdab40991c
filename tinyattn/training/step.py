"""Chapter 4: one training step.

A step computes the loss of a batch, backpropagates, clips the gradients and updates the parameters.
It needs only the loss function and the parameters of a model. Next: the training loop
(training/loop.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyattn.backend import Array, asnumpy
from tinyattn.data.batches import Batch
from tinyattn.limits import seed_of
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor
from tinyattn.training.optimizers import Optimizer, clip_gradients

Loss = Callable[[Batch, DropoutRNG | None, float], Tensor]
"""A function of a part of a batch, the dropout RNG and the number of targets in the whole batch."""


@dataclass(frozen=True)
class StepResult:
    """What a step measured. On a GPU, reading `loss` or `norm` waits for the GPU."""

    step: int  # number of the step, from 0
    positions: int  # how many were computed, B·T
    measured: tuple[Array | float, Array | float]  # loss, nats per target; norm before clipping

    loss = property(lambda self: float(asnumpy(self.measured[0])))
    norm = property(lambda self: float(asnumpy(self.measured[1])))

    def check(self) -> None:
        """Raises: FloatingPointError if the loss or the norm is NaN or infinite."""
        if not (math.isfinite(self.loss) and math.isfinite(self.norm)):
            raise FloatingPointError(f"step {self.step + 1}: the loss is {self.loss}, the gradient "
                                     f"norm {self.norm}")  # fmt: skip


class Step:
    """One update of the parameters of all `optimizers`, by one batch. It is a context manager, so
    that its subclass ShardedStep can start and end threads (parallel/shards.py)."""

    def __init__(
        self, loss: Loss, optimizers: list[Optimizer], *, seed: int = 0, clip: float = 1.0
    ) -> None:
        self.loss, self.optimizers, self.seed, self.clip = loss, optimizers, seed_of(seed), clip

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, batch: Batch, step: int, learning_rate: float) -> StepResult:
        """Take step number `step`. Raises: FloatingPointError; then no parameter has changed."""
        parameters = [p for optimizer in self.optimizers for p in optimizer.named.values()]
        for parameter in parameters:
            parameter.zero_grad()
        (batch,) = batch.split(1)  # this removes columns that are all padding
        with np.errstate(all="ignore"):  # NaN and infinity are found below
            loss = self.loss(batch, DropoutRNG(self.seed, step), float(max(1, batch.trained)))
            loss.backward()
            norm = clip_gradients([p.grad for p in parameters if p.grad is not None], self.clip)
        result = StepResult(step, batch.inputs.size, (loss.data, norm))
        try:
            result.check()
            for optimizer in self.optimizers:
                optimizer.step(learning_rate)
        finally:
            for parameter in parameters:
                parameter.zero_grad()
        return result
