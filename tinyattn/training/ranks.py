"""Chapter 6: which process writes.

A run may be shared by several processes, each a *rank*; then rank 0 alone writes and prints. All
that the book needs to know of it stands in one object. Here it says that this process is alone.
The engine room extends it (parallel/ranks.py).
"""

from __future__ import annotations

from typing import Any

from tinyattn.services import service


class MissingMPI(Exception):
    """Several processes cannot work together: mpi4py is missing, or belongs to another MPI.

    It is raised as well if the environment does not say how many processes were started.
    """


class RanksDiffer(Exception):
    """Processes that should do the same were given different things to do."""


class Ranks:
    """The processes of a run: this one, alone."""

    rank, size = 0, 1

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    def any_of(self, number: int) -> int:
        """The largest number that any of the ranks gives, such as 0 for no. It waits for all."""
        return number

    def agree(self, what: str) -> None:
        """Raises: RanksDiffer, on all ranks, unless all of them say the same."""

    def end_all(self, status: int) -> None:
        """End all ranks, since this one cannot go on and the others would wait for it."""


ALONE = Ranks()


@service
def all_ranks(xp: Any, device: str = "cpu") -> Ranks:
    """The ranks of a run that computes on `device`. xp is NumPy: this is about the host.

    Raises: MissingMPI; RuntimeError if GPUs cannot be connected.
    """
    return ALONE


@service
def started(xp: Any) -> tuple[int, str]:
    """How many processes were started together, and a hint to append to an error: how to run alone.

    Raises: MissingMPI if the environment says no number.
    """
    return 1, ""
