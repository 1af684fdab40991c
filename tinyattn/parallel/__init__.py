"""Engine room, in parallel: threads, processes, and the training step that they share.

A reader may skip this folder. The functions here and in threads.py replace services of the package
(services.py). Without them one thread of one process computes everything, with the same results.
Modules that not every command needs are imported where they are used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tinyattn.parallel import threads
from tinyattn.services import serves

if TYPE_CHECKING:
    from tinyattn.training.optimizers import Optimizer
    from tinyattn.training.ranks import Ranks
    from tinyattn.training.step import Loss, Step

__all__ = ["threads"]


@serves("cpu", "cuda")
def one_thread(xp: Any) -> AbstractContextManager[None]:
    """A context in which the BLAS uses one thread."""
    return threads.one_blas_thread()


@serves("cpu")
def threads_and_blas(xp: Any) -> tuple[int, str]:
    """The number of cores that threads may use, and the BLAS of matrix products."""
    return threads.available_cores(), threads.blas()


@serves("cpu")
def all_ranks(xp: Any, device: str = "cpu") -> Ranks:
    """The processes that mpiexec started."""
    from tinyattn.parallel.mpi import joined

    return joined(device)


@serves("cpu")
def started(xp: Any) -> tuple[int, str]:
    """How many processes mpiexec or a scheduler started, and a hint how to run alone."""
    from tinyattn.parallel import mpi

    return mpi.started(), mpi.to_be_alone()


@serves("cpu", "cuda")
def step(
    xp: Any, loss: Loss, optimizers: list[Optimizer], *, seed: int = 0, clip: float = 1.0,
    workers: int | None = None, ranks: Ranks | None = None,
) -> Step:  # fmt: skip
    """A training step that threads and processes share."""
    from tinyattn.parallel.shards import ShardedStep

    return ShardedStep(loss, optimizers, seed=seed, clip=clip, workers=workers, ranks=ranks)
