"""Engine room, parallel: one run on several processes (data parallelism).

The shards of a batch do not depend on one another, so several computers can share them as two cores
do. Each process, a *rank*, computes the gradients of some of the shards. An all-reduce adds the
gradients of all ranks. Then each rank makes the same update of the same parameters, which are never
sent. Only rank 0 writes files; the others read them, so all need the same folder. MPI starts and
connects the processes:

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
"""Variables in which MPICH, Open MPI and Slurm give the number of processes they started."""
NEIGHBOURS = "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"
"""Variables in which MPICH and Open MPI give the number of processes on this computer."""
PLACE = "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "PMI_RANK"
"""Variables with this process's number among these; the last one counts over all computers."""

MOST_PROCESSES = 100_000_000
"""Most processes: more than the cores of the largest computers of 2025, some 10 million."""
FAREWELL = 0.2
"""Seconds for mpiexec to pass on the last output of a process, before it must end."""


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
        except RuntimeError as error:  # mpi4py is installed, but finds no library
            raise MissingMPI(
                "started by mpiexec, but mpi4py finds no MPI; install one with: "
                f"pip install 'tinyattn[mpi]'{to_be_alone()}"
            ) from error
        self._mpi, self._all = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._all.rank, self._all.size
        if self.size != started():
            raise MissingMPI(
                f"mpiexec started {started()} processes, but mpi4py finds {self.size}: it uses "
                f"another MPI; use the mpiexec of that MPI{to_be_alone()}"
            )
        sys.excepthook = self._unexpected

    @property
    def neighbours(self) -> int:
        """The processes of the run on this computer; all of them if no variable gives it."""
        return _variable(NEIGHBOURS, least=1)[1] or self.size

    def add_up(self, array: Array) -> None:
        """All-reduce: the sum of the arrays of all ranks, in place; every rank gets the same bits.

        MPI gets NumPy's arrays without a copy.
        """
        self._all.Allreduce(self._mpi.IN_PLACE, array)

    def any_of(self, number: int) -> int:
        """The largest `number` of all ranks, such as 0 for no. Waits for all ranks."""
        found = np.array([number], np.int32)
        self._all.Allreduce(self._mpi.IN_PLACE, found, op=self._mpi.MAX)
        return int(found[0])

    def agree(self, what: str) -> None:
        """Raises: RanksDiffer, on all ranks, unless `what` is the same on all of them."""
        hashes = self._all.allgather(hashlib.sha256(what.encode()).hexdigest())
        if len({*hashes}) > 1:
            raise RanksDiffer(
                "the processes of this run differ in settings, data, number of workers, kernels "
                "(is Numba installed for all?) or version; start all with the same command, and "
                "with --workers"
            )

    def end_all(self, status: int) -> None:
        """End all ranks: this one cannot continue, and the others would wait for it."""
        for stream in filter(None, (sys.stdout, sys.stderr)):  # a service may have none
            stream.flush()
        time.sleep(FAREWELL)
        self._all.Abort(status)

    def _unexpected(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        """Print an error that was not caught, and end all ranks."""
        traceback.print_exception(kind, error, where)
        self.end_all(1)


class GPURanks(MPIRanks):
    """Processes with a GPU each: NCCL adds the arrays on GPUs, without a copy to the host.

    Raises: MissingMPI, and RuntimeError as `connect_gpus` does.
    """

    def __init__(self) -> None:
        # This process may use only its own GPU. This is set before MPI starts, which may look for
        # GPUs too.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        place = _variable(PLACE, least=0)[1] or 0
        own = visible.split(",")[place % len(visible.split(","))] if visible else str(place)
        os.environ["CUDA_VISIBLE_DEVICES"] = own
        super().__init__()
        self._gpus = connect_gpus(self.rank, self.size)

    def add_up(self, array: Array) -> None:
        """All-reduce: the sum of the arrays of all ranks, in place."""
        if isinstance(array, np.ndarray):
            super().add_up(array)
        else:
            self._gpus.all_reduce(array, array, op="sum")


def started() -> int:
    """How many processes mpiexec started; 1 without it. Raises: MissingMPI, see `_variable`."""
    return _variable(LAUNCHED, least=1)[1] or 1


def to_be_alone() -> str:
    """A hint for an error message: which variable to unset to run alone; "" if there is none.

    A scheduler's job sets the variable for each program, though this may be the only one.
    """
    name, number = _variable(LAUNCHED, least=1)
    return f"; to run alone, unset {name}, which is {number}" if name else ""


def default_workers(ranks: Ranks) -> int:
    """Threads that each process should have: the cores, shared with its neighbours."""
    neighbours = ranks.neighbours if isinstance(ranks, MPIRanks) else 1
    return max(1, min(available_cores() // neighbours, MOST_WORKERS))


def connect_gpus(rank: int, size: int) -> Any:
    """CuPy's communicator over NCCL for `size` processes that MPI started, each with a GPU.

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
    """The ranks of a run on this device. Raises: MissingMPI; RuntimeError, see GPURanks."""
    if started() == 1:
        return ALONE
    return MPIRanks() if device == "cpu" else GPURanks()


def _variable(names: tuple[str, ...], *, least: int) -> tuple[str, int | None]:
    """The first of these environment variables that is set and not empty, and its number.

    Returns: "" and None if there is none.
    Raises: MissingMPI unless the value is a whole number from `least` to MOST_PROCESSES.
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
