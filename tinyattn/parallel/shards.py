"""Engine room, parallel: one training step, shared by threads and processes.

The rows of a batch do not depend on one another, so a step splits them into shards. Worker threads
compute the gradients of the shards side by side, each with one BLAS thread. The sum of these
gradients is the gradient of the batch. A large batch becomes many shards, so its memory stays
small. A free worker takes the next shard, but gradients are added in the order of the shards, so a
run can be repeated bit for bit.

On a GPU a shard is as large as its memory allows. The step does not wait for the GPU: its loss and
norm stay there until they are read.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections import deque
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from tinyattn.backend import Array, asnumpy
from tinyattn.data.batches import Batch
from tinyattn.dispatch import Function, choose, dispatched
from tinyattn.limits import MOST_WORKERS, whole
from tinyattn.parallel.flat import FlatParameters, Piece, add_gradients, flat_of, tiles
from tinyattn.parallel.mpi import default_workers
from tinyattn.parallel.threads import executor, on_gpu, worker_threads
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor, gradients
from tinyattn.training.optimizers import Optimizer
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.step import Loss, Step, StepResult

SHARD_TOKENS = 1024
"""About how many positions a shard has. It bounds the memory of a step for any batch size."""
GPU_SHARD_TOKENS = 1 << 15
"""The same on a GPU, which has more memory and needs more work at once: 258 sequences of A5
(assignment 5 of Stanford CS224N)."""


class BatchTooLarge(MemoryError):
    """A batch that is too large for the memory of a GPU.

    Args:
        batch: the batch.
        fits: how many of its sequences would fit; 0 if not even one.
    """

    def __init__(self, batch: Batch, fits: int) -> None:
        rows, positions = batch.inputs.shape
        super().__init__(
            f"a batch of {rows} sequences is too large for this GPU; one of {fits} would fit"
            if fits
            else f"not even one sequence of {positions} tokens fits this GPU; use a smaller model"
        )
        self.fits = fits


class ShardedStep(Step):
    """One update of the parameters from one batch. Use it as a context, which has its threads.

    The parameters and the optimizer state move into flat arrays (flat.py).

    Args:
        loss, optimizers, seed, clip: as in `Step`.
        workers: number of threads; by default one for each core, on a GPU one.
        ranks: processes that share the batch; by default this one alone.
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
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(loss, optimizers, seed=seed, clip=clip)
        ranks = ranks or ALONE
        self.ranks: Any = ranks
        self.flat = [flat_of(optimizer) for optimizer in optimizers]
        self.xp = self.flat[0].xp
        if workers is None:
            workers = 1 if on_gpu(self.xp) else default_workers(ranks)
        self.workers = whole("workers", workers, 1, 1 if on_gpu(self.xp) else MOST_WORKERS)
        ranks.agree(f"workers {self.workers}")  # they decide which shards each rank takes
        self.executor = executor(self.workers, apart=on_gpu(self.xp))
        self._failed = self.xp.zeros(1, dtype=self.xp.int32)  # on a GPU, whether a step failed
        self._collector = {
            key: piece for flat in self.flat for key, piece in flat.collector().items()
        }

    def __enter__(self) -> Self:
        self._threads = worker_threads()
        self._threads.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.shutdown(cancel_futures=True)
        self._threads.__exit__(None, None, None)

    def __call__(self, batch: Batch, step: int, learning_rate: float) -> StepResult:
        """Compute the loss of `batch` and its gradients, and update the parameters.

        Raises: FloatingPointError if the loss or the gradient is not finite; the parameters stay
            as they were before. On a GPU the step does not wait, so the error comes later: from
            then on no step updates a parameter, every norm is NaN, and `StepResult.check` raises.
            BatchTooLarge on a GPU.
        """
        try:
            return self._take(batch, step, learning_rate)
        except MemoryError as error:
            if not on_gpu(self.xp):
                raise
            traceback.clear_frames(error.__traceback__)  # they hold the arrays
            self.executor.submit(int).result()  # first its one thread finishes the shards begun
            raise BatchTooLarge(batch, self._fitting(batch)) from error

    def _fitting(self, batch: Batch) -> int:
        """How many of a batch's longest sequences fit the GPU, found by trying; 0 if none."""
        rows, positions = batch.inputs.shape
        sharing, (longest,) = self.ranks.size, batch.split(1)
        fits = int(min(-(-rows // sharing), GPU_SHARD_TOKENS // positions))
        while fits > 1:
            fits //= 2
            try:
                some = Batch(longest.inputs[:fits], longest.targets[:fits])
                gradients(self.loss(some, DropoutRNG(0), 1.0))
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
        for flat in self.flat:
            flat.gather()

        def work(i: int) -> tuple[Tensor, list[tuple[Tensor, Array]]]:
            with np.errstate(all="ignore"):  # ∞ and NaN are noticed below
                loss = self.loss(shards[i], DropoutRNG(self.seed, step, first_rows[i]), divisor)
                return loss, gradients(loss)

        begun = 2 * self.workers  # shards at a time; more would only need more memory
        futures = deque(self.executor.submit(work, i) for i in mine[:begun])
        for flat in self.flat:
            flat.grads[...] = 0
            for parameter in flat.named.values():
                parameter.zero_grad()  # gradients of an earlier `backward`
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
        if self._must_wait():
            result.check()
        self._move(learning_rate)
        return result

    def _must_wait(self) -> bool:
        """Whether the step must wait for the loss before it updates parameters.

        Kernels on a GPU change nothing where the gradient is NaN, so they need not wait. Formulas
        have no such test.
        """
        if not on_gpu(self.xp):
            return True
        rules: list[Function] = [clip_factor, *(type(o).rule for o in self.optimizers)]
        return any(choose(inspect.unwrap(rule), "cuda", (), {})[1] for rule in rules)

    def _add_up(self, losses: list[Array]) -> list[Array]:
        """All-reduce: add the gradients of all ranks in place. Returns: the sum of their losses."""
        total = self.xp.zeros(1, dtype=self.flat[0].grads.dtype)
        for loss in losses:
            total += loss
        for array in (total, *(flat.grads for flat in self.flat)):
            self.ranks.add_up(array)
        return [total[0]]

    def _clip(self, losses: list[Array]) -> tuple[Array, Array]:
        """Gradient clipping: scale the gradient to a norm of at most `clip`.

        Returns: the loss, and the norm before clipping. On a GPU the gradient becomes NaN if one of
            them is not finite; then the optimizers' kernels change nothing.
        """
        squares: list[Array] = []
        for flat in self.flat:

            def square(tile: slice, grads: Array = flat.grads) -> Array:
                with np.errstate(all="ignore"):  # ∞ and NaN show in the norm
                    return grads[tile] @ grads[tile]

            squares += self.executor.map(square, self._tiles(flat))
        loss, norm, factor = clip_factor(self.xp, losses, squares, self.clip, self._failed)
        if on_gpu(self.xp) or factor < 1:
            for flat in self.flat:
                flat.grads *= factor
        return loss, norm

    def _tiles(self, flat: FlatParameters) -> Iterable[slice]:
        size = len(flat.grads)
        return [slice(0, size)] if on_gpu(self.xp) else tiles(size)

    def _move(self, learning_rate: float) -> None:
        """Apply the rules of all optimizers; the threads share the pieces."""
        for optimizer, flat in zip(self.optimizers, self.flat, strict=True):
            optimizer.steps += 1

            def move(piece: Piece, optimizer: Optimizer = optimizer) -> None:
                w, g, moments, decay = piece
                optimizer.move(w, g, moments, learning_rate, decay)

            list(self.executor.map(move, flat.pieces))
            flat.changed()


@dispatched
def clip_factor(
    xp: Any, losses: list[Array], squares: list[Array], clip: float, failed: Array
) -> tuple[Any, Any, Any]:
    """The sum of the losses, the norm of the gradient, and the factor that clips the gradient.

    `squares` are the squared norms of the parts of the gradient.

    Forward:  loss = Σ losses; norm = √Σ squares; factor = clip/(norm + 1e-6) if norm > clip, else 1
    Shapes:   () each; `failed`, (1,), is for its kernel on a GPU
    """
    loss = math.fsum(float(asnumpy(loss)) for loss in losses)
    norm = math.sqrt(math.fsum(float(asnumpy(square)) for square in squares))
    return loss, norm, clip / (norm + 1e-6) if clip < norm < math.inf else 1.0
