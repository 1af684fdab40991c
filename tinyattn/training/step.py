"""Chapter 4: one training step.

Compute the loss of a batch; go back to the gradients; if they are too long, shorten them; move the
parameters. Of the model a step sees its loss function and its parameters. Next: the training loop
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
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor
from tinyattn.training.optimizers import Optimizer, clip_gradients

Loss = Callable[[Batch, Noise | None, float], Tensor]
"""(part of a batch, random bits, what to divide by) -> loss; divided by the batch's targets."""


@dataclass(frozen=True)
class StepResult:
    """What a step measured; on a GPU, to ask for a number is to wait until it is there."""

    step: int  # which, from 0
    positions: int  # that were computed
    measured: tuple[Array | float, Array | float]  # loss, nats per target; norm before clipping

    loss = property(lambda self: float(asnumpy(self.measured[0])))
    norm = property(lambda self: float(asnumpy(self.measured[1])))

    def check(self) -> None:
        """Raises: FloatingPointError if loss or norm is not a number."""
        if not (math.isfinite(self.loss) and math.isfinite(self.norm)):
            raise FloatingPointError(f"step {self.step + 1}: the loss is {self.loss}, the gradient "
                                     f"norm {self.norm}")  # fmt: skip


class Step:
    """One update of the parameters from one batch. A context; `optimizers` own all parameters."""

    def __init__(
        self, loss: Loss, optimizers: list[Optimizer], *, seed: int = 0, clip: float = 1.0
    ) -> None:
        self.loss, self.optimizers, self.seed, self.clip = loss, optimizers, seed_of(seed), clip

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, batch: Batch, step: int, learning_rate: float) -> StepResult:
        """Take step number `step`. Raises: FloatingPointError, and nothing has moved then."""
        parameters = [p for optimizer in self.optimizers for p in optimizer.named.values()]
        for parameter in parameters:
            parameter.zero_grad()
        (batch,) = batch.split(1)  # not split, but without columns in which all rows have ended
        with np.errstate(all="ignore"):  # what is not a number is noticed below
            loss = self.loss(batch, Noise(self.seed, step), float(max(1, batch.trained)))
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
