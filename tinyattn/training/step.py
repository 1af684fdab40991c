"""Chapter 8, continued: one training step.

The rows of a batch do not depend on one another, so a step splits them into shards: worker
threads compute the shards' gradients side by side, each with one BLAS thread, and the sum of
their gradients is the gradient of the batch. A large batch becomes many shards, so its memory
stays small. Whoever is free takes the next shard; but the sum is taken in the order of the shards,
so a run can be repeated bit for bit.

The step knows nothing of GPT: it calls a loss function. Next: how many multiply-adds an operation
needs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tinyattn.backend import Array, asnumpy, available_cores, tiles, worker_threads
from tinyattn.data.batches import Batch
from tinyattn.noise import Noise
from tinyattn.tensor import Tensor, gradients
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.parameters import add_gradients

SHARD_TOKENS = 1024
"""Positions that a shard has, about, which bounds the memory of a step whatever the batch."""

Loss = Callable[[Batch, Noise | None, float], Tensor]
"""(part of a batch, random bits, what to divide by) -> loss; divided by the batch's targets."""


@dataclass(frozen=True)
class StepResult:
    """What a step measured."""

    loss: float  # nats per target, before the update
    norm: float  # of the gradient, before clipping
    positions: int  # that were computed; fewer than the batch has where it ends in PAD


class Step:
    """One update of the parameters from one batch. A context, in which its threads can work.

    Args:
        loss: the loss function.
        optimizers: together they own every parameter.
        seed: of the dropout.
        clip: the largest gradient norm.
        workers: threads; by default one a core. On a GPU one is enough.
    """

    def __init__(
        self,
        loss: Loss,
        optimizers: list[Optimizer],
        *,
        seed: int = 0,
        clip: float = 1.0,
        workers: int | None = None,
    ) -> None:
        self.loss, self.optimizers, self.seed, self.clip = loss, optimizers, seed, clip
        self.workers = workers or available_cores()
        self.executor = ThreadPoolExecutor(self.workers)
        self._collector = {
            key: piece for o in optimizers for key, piece in o.flat.collector().items()
        }

    def __enter__(self) -> Step:
        self._threads = worker_threads()
        self._threads.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.__exit__(None, None, None)
        self.executor.shutdown(cancel_futures=True)

    def __call__(self, batch: Batch, step: int, learning_rate: float) -> StepResult:
        """Compute the loss of `batch` and its gradients, and move the parameters.

        Raises: FloatingPointError if the loss or the gradient is not a number; the parameters
            are then as they were before.
        """
        parts = max(self.workers, math.ceil(batch.inputs.size / SHARD_TOKENS))
        shards = batch.split(-(-parts // self.workers) * self.workers)  # so all end together
        first_rows = [0]
        for shard in shards:
            first_rows.append(first_rows[-1] + len(shard.inputs))
        divisor = float(max(1, batch.trained))

        def work(i: int) -> tuple[Tensor, list[tuple[Tensor, Array]]]:
            with np.errstate(all="ignore"):  # what is not a number is noticed below
                loss = self.loss(shards[i], Noise(self.seed, step, first_rows[i]), divisor)
                return loss, gradients(loss)

        begun = 2 * self.workers  # shards at a time: more would only pile gradients up
        futures = deque(self.executor.submit(work, i) for i in range(min(begun, len(shards))))
        for optimizer in self.optimizers:
            optimizer.flat.grads[...] = 0
        losses = []
        for i in range(len(shards)):
            loss, gradient = futures.popleft().result()
            if i + begun < len(shards):
                futures.append(self.executor.submit(work, i + begun))
            losses.append(loss)
            with np.errstate(all="ignore"):
                add_gradients(self._collector, gradient)
            del gradient
        norm = self._clip()
        total = math.fsum(loss.item() for loss in losses)
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise FloatingPointError(
                f"step {step + 1}: the loss is {total}, the gradient norm {norm}"
            )
        for optimizer in self.optimizers:
            optimizer.step(learning_rate, self.executor)
        return StepResult(total, norm, sum(shard.inputs.size for shard in shards))

    def _clip(self) -> float:
        """Shorten the gradient to the largest norm allowed; returns the norm before."""
        squares: list[Array] = []
        for optimizer in self.optimizers:
            grads = optimizer.flat.grads

            def square(tile: slice, grads: Array = grads) -> Array:
                with np.errstate(all="ignore"):  # what is not finite shows in the norm
                    return grads[tile] @ grads[tile]

            squares += self.executor.map(square, tiles(len(grads), 1, optimizer.flat.xp))
        norm = math.sqrt(math.fsum(float(asnumpy(square)) for square in squares))
        if self.clip < norm < math.inf:
            for optimizer in self.optimizers:
                optimizer.flat.grads *= self.clip / (norm + 1e-6)
        return norm
