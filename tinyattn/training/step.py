"""Chapter 8, continued: one training step.

The rows of a batch do not depend on one another, so a step splits them into shards: worker
threads compute the shards' gradients side by side, each with one BLAS thread, and the sum of
their gradients is the gradient of the batch. A large batch becomes many shards, so its memory
stays small. Whoever is free takes the next shard; but the sum is taken in the order of the shards,
so a run can be repeated bit for bit.

On a GPU a shard is as large as its memory allows, and nobody waits for it: what a step measured
stays there until it is asked for.

Of the model a step sees its loss function and its parameters. Next: checkpoints.
"""

from __future__ import annotations

import math
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.backend import Array, asnumpy, on_gpu
from tinyattn.data.batches import Batch
from tinyattn.dispatch import dispatched
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.limits import MOST_WORKERS, seed_of, whole
from tinyattn.noise import Noise
from tinyattn.parallel.ranks import MPIRanks, default_workers
from tinyattn.parallel.threads import worker_threads
from tinyattn.tensor import Tensor, gradients
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.parameters import add_gradients
from tinyattn.training.ranks import ALONE, Ranks

SHARD_TOKENS = 1024
"""Positions that a shard has, about, which bounds the memory of a step whatever the batch."""
GPU_SHARD_TOKENS = 1 << 15
"""The same on a GPU, which has more memory, and needs much at once to be busy: 258 texts of A5."""


class BatchTooLarge(MemoryError):
    """A batch for which a GPU's memory is too small.

    Args:
        batch: the batch.
        fits: how many of its texts would fit; 0 if not even one.
    """

    def __init__(self, batch: Batch, fits: int) -> None:
        rows, positions = batch.inputs.shape
        super().__init__(
            f"a batch of {rows} texts is too large for this GPU; one of {fits} would fit" if fits
            else f"not even one text of {positions} symbols fits this GPU; use a smaller model"
        )  # fmt: skip
        self.fits = fits


Loss = Callable[[Batch, Noise | None, float], Tensor]
"""(part of a batch, random bits, what to divide by) -> loss; divided by the batch's targets."""


@dataclass(frozen=True)
class StepResult:
    """What a step measured; on a GPU, to ask for a number is to wait until it is there."""

    step: int  # which, from 0
    positions: int  # that were computed; fewer than the batch has where it ends in PAD
    measured: tuple[Array, Array]  # loss and norm

    @property
    def loss(self) -> float:
        """Nats per target, before the update."""
        return float(asnumpy(self.measured[0]))

    @property
    def norm(self) -> float:
        """Of the gradient, before clipping."""
        return float(asnumpy(self.measured[1]))

    def check(self) -> None:
        """Raises: FloatingPointError if loss or norm is not a number.

        On a GPU the steps behind such a step have no norm either, whatever their loss.
        """
        loss, norm = self.loss, self.norm
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise FloatingPointError(
                f"step {self.step + 1}: the loss is {loss}, the gradient norm {norm}"
            )


class Step:
    """One update of the parameters from one batch. A context, in which its threads can work.

    Args:
        loss: the loss function.
        optimizers: together they own every parameter.
        seed: of the dropout.
        clip: the largest gradient norm.
        workers: threads; by default one a core, on a GPU one.
        ranks: the processes that share the batch.
    Raises: ValueError for a seed or a number of workers out of range.
    """

    def __init__(
        self,
        loss: Loss,
        optimizers: list[Optimizer],
        *,
        seed: int = 0,
        clip: float = 1.0,
        workers: int | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.ranks = ranks
        self.loss, self.optimizers, self.clip = loss, optimizers, clip
        self.seed = seed_of(seed)
        self.xp = optimizers[0].flat.xp
        self.workers = whole(
            "workers",
            workers or (1 if on_gpu(self.xp) else default_workers(ranks)),
            1,
            MOST_WORKERS,
        )
        ranks.agree(f"workers {self.workers}")  # they decide what each takes of a batch
        self.executor = ThreadPoolExecutor(self.workers)
        self._failed = self.xp.zeros(1, dtype=self.xp.int32)  # on a GPU, whether a step has
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
            are then as they were before. On a GPU they stay so too, in all steps from then on,
            and the result says it when it is asked (`StepResult.check`). BatchTooLarge on a GPU.
        """
        try:
            return self._take(batch, step, learning_rate)
        except MemoryError as error:
            if not on_gpu(self.xp):
                raise
            traceback.clear_frames(error.__traceback__)  # what filled the memory is in them
            self.executor.submit(int).result()  # its one thread first ends what was begun
            raise BatchTooLarge(batch, self._fitting(batch)) from error

    def _fitting(self, batch: Batch) -> int:
        """How many of a batch's longest texts would fit a GPU, found by trying; 0 if not one."""
        rows, positions = batch.inputs.shape
        sharing, (longest,) = self.ranks.size, batch.split(1)
        fits = int(min(-(-rows // sharing), GPU_SHARD_TOKENS // positions))
        while fits > 1:
            fits //= 2
            try:
                some = Batch(longest.inputs[:fits], longest.targets[:fits])
                gradients(self.loss(some, Noise(0), 1.0))
                return int(fits * sharing)
            except MemoryError:
                continue
        return 0

    def _take(self, batch: Batch, step: int, learning_rate: float) -> StepResult:
        most = GPU_SHARD_TOKENS if on_gpu(self.xp) else SHARD_TOKENS
        workers = self.workers * self.ranks.size
        parts = max(workers, math.ceil(batch.inputs.size / most))
        shards = batch.split(-(-parts // workers) * workers)  # so all end together
        mine = range(self.ranks.rank, len(shards), self.ranks.size)
        first_rows = [0]
        for shard in shards:
            first_rows.append(first_rows[-1] + len(shard.inputs))
        divisor = float(max(1, batch.trained))

        def work(i: int) -> tuple[Tensor, list[tuple[Tensor, Array]]]:
            with np.errstate(all="ignore"):  # what is not a number is noticed below
                loss = self.loss(shards[i], Noise(self.seed, step, first_rows[i]), divisor)
                return loss, gradients(loss)

        begun = 2 * self.workers  # shards at a time: more would only pile gradients up
        futures = deque(self.executor.submit(work, i) for i in mine[:begun])
        for optimizer in self.optimizers:
            optimizer.flat.grads[...] = 0
        losses = []
        for number in range(len(mine)):
            loss, gradient = futures.popleft().result()
            if number + begun < len(mine):
                futures.append(self.executor.submit(work, mine[number + begun]))
            losses.append(loss.data)
            with np.errstate(all="ignore"):
                add_gradients(self._collector, gradient)
            del gradient
        if self.ranks.size > 1:
            losses = self._add_up(losses)
        positions = sum(shard.inputs.size for shard in shards)
        result = StepResult(step, positions, self._clip(losses))
        if not on_gpu(self.xp):
            result.check()
        for optimizer in self.optimizers:
            optimizer.step(learning_rate, self.executor)
        return result

    def _add_up(self, losses: list[Array]) -> list[Array]:
        """The gradients of all ranks, added up in place; and their losses, as one."""
        total = self.xp.zeros(1, dtype=self.optimizers[0].flat.grads.dtype)
        for loss in losses:
            total += loss
        for array in (total, *(optimizer.flat.grads for optimizer in self.optimizers)):
            assert isinstance(self.ranks, MPIRanks)
            self.ranks.add_up(array)
        return [total[0]]

    def _clip(self, losses: list[Array]) -> tuple[Array, Array]:
        """Shorten the gradient to the largest norm allowed; returns the loss and the norm before.

        On a GPU a gradient becomes NaN if something is, and the optimisers' kernels leave what they
        have as it is where they are given NaN.
        """
        squares: list[Array] = []
        for optimizer in self.optimizers:
            grads = optimizer.flat.grads

            def square(tile: slice, grads: Array = grads) -> Array:
                with np.errstate(all="ignore"):  # what is not finite shows in the norm
                    return grads[tile] @ grads[tile]

            squares += self.executor.map(square, tiles(len(grads), 1))
        loss, norm, factor = clip_factor(self.xp, losses, squares, self.clip, self._failed)
        if on_gpu(self.xp) or factor < 1:
            for optimizer in self.optimizers:
                optimizer.flat.grads *= factor
        return loss, norm


@dispatched
def clip_factor(
    xp: Any, losses: list[Array], squares: list[Array], clip: float, failed: Array
) -> tuple[Any, Any, Any]:
    """The sum of the losses, the gradient's norm from its parts' squares, and what to scale it by.

    Forward:  loss = Σ losses; norm = √Σ squares; factor = clip/(norm + 1e-6) if norm > clip, else 1
    Shapes:   () each; `failed`, (1,), is for its kernel on a GPU
    """
    loss = math.fsum(float(asnumpy(loss)) for loss in losses)
    norm = math.sqrt(math.fsum(float(asnumpy(square)) for square in squares))
    return loss, norm, clip / (norm + 1e-6) if clip < norm < math.inf else 1.0
