"""Engine room, in parallel: threads, processes, and the step of training that they share.

A reader may skip all of it. Here, and in threads.py, stands what each function of the book becomes
when this room is there; without it one thread of one process does everything, with the same
answers. What a command may not need is imported when it is needed.
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
    """Limits the BLAS to one thread."""
    return threads.one_blas_thread()


@serves("cpu")
def cores_and_blas(xp: Any) -> tuple[int, str]:
    """What threads and products run on here."""
    return threads.available_cores(), threads.blas()


@serves("cpu")
def all_ranks(xp: Any, device: str = "cpu") -> Ranks:
    """The processes that mpiexec started."""
    from tinyattn.parallel.ranks import joined

    return joined(device)


@serves("cpu")
def started(xp: Any) -> tuple[int, str]:
    """What the environment says of mpiexec, or of a scheduler."""
    from tinyattn.parallel import ranks

    return ranks.started(), ranks.to_be_alone()


@serves("cpu", "cuda")
def step(
    xp: Any, loss: Loss, optimizers: list[Optimizer], *, seed: int = 0, clip: float = 1.0,
    workers: int | None = None, ranks: Ranks | None = None,
) -> Step:  # fmt: skip
    """A step that threads and processes share."""
    from tinyattn.parallel.shards import ShardedStep

    return ShardedStep(loss, optimizers, seed=seed, clip=clip, workers=workers, ranks=ranks)
