"""Chapter 6: ranks, the processes of a run.

Several processes may share a run. Each of them is a *rank*, and only rank 0 writes and prints. The
other chapters know the ranks through one object. The object of this file is for one process alone;
parallel/mpi.py, in the engine room, extends it to several.
"""

from __future__ import annotations

from typing import Any

from tinyattn.services import service


class MissingMPI(Exception):
    """Several processes cannot work together: mpi4py is missing, or was built for another MPI.

    Also raised if the environment does not contain the number of processes that were started.
    """


class RanksDiffer(Exception):
    """Processes of one run were given different data, settings or arguments."""


class Ranks:
    """The processes of a run. In this class there is one."""

    rank, size = 0, 1

    @property
    def writes(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def any_of(self, number: int) -> int:
        """The largest `number` of all ranks; 0 may mean no. Waits for all ranks."""
        return number

    def agree(self, what: str) -> None:
        """Raises: RanksDiffer, on all ranks, unless `what` is the same on all of them."""

    def end_all(self, status: int) -> None:
        """End all ranks: this one cannot continue, and the others would wait for it."""


ALONE = Ranks()


@service
def all_ranks(xp: Any, device: str = "cpu") -> Ranks:
    """The ranks of a run that computes on `device`. xp is NumPy, since ranks are host processes.

    Raises: MissingMPI; RuntimeError if GPUs cannot be connected.
    """
    return ALONE


@service
def started(xp: Any) -> tuple[int, str]:
    """How many processes were started together, and a hint for an error: how to run one alone.

    Raises: MissingMPI if the environment contains no valid number.
    """
    return 1, ""
