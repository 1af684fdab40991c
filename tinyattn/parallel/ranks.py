"""Engine room, parallel: one run on several processes.

What makes a run fast on two cores makes it fast on two computers: the shards of a batch do not
depend on one another. So each process, a *rank*, takes its share of the shards, all add their
gradients up, and each then makes the same update of the same parameters, which never travel. Rank
0 alone writes; the others read what it has written, so they need the same folder. The processes
are started and connected by MPI:

    mpiexec -n 2 tinyattn pretrain corpus.txt
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import traceback
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np

from tinyattn.backend import Array, get_device
from tinyattn.limits import MOST_WORKERS, brief
from tinyattn.parallel.threads import available_cores
from tinyattn.training.ranks import ALONE, MissingMPI, Ranks, RanksDiffer

LAUNCHED = "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"
"""Where MPICH, Open MPI and Slurm tell how many processes they have started."""
NEIGHBOURS = "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"
"""Where MPICH and Open MPI tell how many of them are on this computer."""
PLACE = "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "PMI_RANK"
"""Where they tell which of these this process is; the last one counts those of all computers."""

MOST_PROCESSES = 100_000_000
"""More than there are cores in the largest computers of 2025, which have some 10 million."""
FAREWELL = 0.2
"""Seconds that mpiexec has to pass on what a process said last: once told to end, it may not."""


class MPIRanks(Ranks):
    """The processes that mpiexec started. Raises: MissingMPI without mpi4py."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise MissingMPI(
                "started by mpiexec, but mpi4py is missing; install it with: "
                f"pip install 'tinyattn[mpi]'{to_be_alone()}"
            ) from error
        except RuntimeError as error:  # it is there, and looks for a library in vain
            raise MissingMPI(
                "started by mpiexec, but mpi4py finds no MPI; install one with: "
                f"pip install 'tinyattn[mpi]'{to_be_alone()}"
            ) from error
        self._mpi, self._all = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._all.rank, self._all.size
        if self.size != started():
            raise MissingMPI(
                f"{started()} processes were started, and mpi4py sees {self.size}: it belongs to "
                f"another MPI; use the mpiexec that came with it{to_be_alone()}"
            )
        sys.excepthook = self._unexpected

    @property
    def neighbours(self) -> int:
        """The processes of the run on this computer; all of them, if nobody tells."""
        return _told(NEIGHBOURS, least=1)[1] or self.size

    def add_up(self, array: Array) -> None:
        """The sum of what all ranks have, in its place, everywhere the same bits.

        NumPy's arrays are handed over as they are.
        """
        self._all.Allreduce(self._mpi.IN_PLACE, array)

    def any_of(self, number: int) -> int:
        """The largest number that any of the ranks gives, such as 0 for no. It waits for all."""
        found = np.array([number], np.int32)
        self._all.Allreduce(self._mpi.IN_PLACE, found, op=self._mpi.MAX)
        return int(found[0])

    def agree(self, what: str) -> None:
        """Raises: RanksDiffer, on all ranks, unless all of them say the same."""
        said = self._all.allgather(hashlib.sha256(what.encode()).hexdigest())
        if len({*said}) > 1:
            raise RanksDiffer(
                "the processes of this run have not the same settings, data, number of workers, "
                "or version; start them alike, with --workers"
            )

    def end_all(self, status: int) -> None:
        """End all ranks, since this one cannot go on and the others would wait for it."""
        for stream in filter(None, (sys.stdout, sys.stderr)):  # a service may have none
            stream.flush()
        time.sleep(FAREWELL)
        self._all.Abort(status)

    def _unexpected(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        """What happens to an error that nobody catches."""
        traceback.print_exception(kind, error, where)
        self.end_all(1)


class GPURanks(MPIRanks):
    """Such processes with a GPU each: what is on GPUs is added up by NCCL, without a detour.

    Raises: MissingMPI, and RuntimeError as `connect_gpus` does.
    """

    def __init__(self) -> None:
        # Of the GPUs that may be used, this process is to see but its own; and before MPI starts,
        # which may look for GPUs too.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        place = _told(PLACE, least=0)[1] or 0
        own = visible.split(",")[place % len(visible.split(","))] if visible else str(place)
        os.environ["CUDA_VISIBLE_DEVICES"] = own
        super().__init__()
        self._gpus = connect_gpus(self.rank, self.size)

    def add_up(self, array: Array) -> None:
        """The sum, in place."""
        if isinstance(array, np.ndarray):
            super().add_up(array)
        else:
            self._gpus.all_reduce(array, array, op="sum")


def started() -> int:
    """How many processes mpiexec has started; 1 if it has not. Raises: MissingMPI, see `_told`."""
    return _told(LAUNCHED, least=1)[1] or 1


def to_be_alone() -> str:
    """A hint to append to an error: which variable to unset to run alone; "" if there is none.

    In a job of a scheduler each program sees how many it started, though it may be the only one.
    """
    name, number = _told(LAUNCHED, least=1)
    return f"; if it is to run alone, unset {name}, which says {number}" if name else ""


def default_workers(ranks: Ranks) -> int:
    """Threads that each process should have: the cores, shared with its neighbours."""
    neighbours = ranks.neighbours if isinstance(ranks, MPIRanks) else 1
    return max(1, min(available_cores() // neighbours, MOST_WORKERS))


def connect_gpus(rank: int, size: int) -> Any:
    """CuPy's communicator over NCCL for `size` processes, each with a GPU, which MPI has started.

    Raises: RuntimeError if there is no GPU, or no NCCL, or the processes do not find each other.
    """
    get_device("cuda")
    try:
        from cupyx.distributed import init_process_group

        return init_process_group(size, rank, use_mpi=True)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise RuntimeError(
            f"the GPUs of {size} processes cannot be connected: {error}; each process needs one, "
            "and NCCL, which is in nvidia-nccl-cu13 (or -cu12) on PyPI"
        ) from error


@cache
def joined(device: str) -> Ranks:
    """The ranks of a run on such a device. Raises: MissingMPI; RuntimeError, see GPURanks."""
    if started() == 1:
        return ALONE
    return MPIRanks() if device == "cpu" else GPURanks()


def _told(names: tuple[str, ...], *, least: int) -> tuple[str, int | None]:
    """The first of these environment variables that tells a number, and the number.

    One that is empty tells nothing. Raises: MissingMPI for what is no whole number from `least` to
    MOST_PROCESSES.
    """
    for name in names:
        if text := os.environ.get(name, "").strip():
            digits = text.isascii() and text.isdecimal() and len(text) < 10
            if not (digits and least <= int(text) <= MOST_PROCESSES):
                raise MissingMPI(
                    f"{name}, in the environment, must be a whole number from {least} to "
                    f"{MOST_PROCESSES}; got {brief(text)}; unset it to run alone"
                )
            return name, int(text)
    return "", None
