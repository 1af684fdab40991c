"""Chapter 6: a lock, so that only one process writes a run.

Two processes that train into the same folder would overwrite each other's checkpoints. So a process
that writes a run holds a lock: a file in the run's folder, with the number of the process. The
operating system locks it, and releases it when the process ends, in whatever way it ends.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path

from tinyattn.data.files import clear_leftovers
from tinyattn.training.checkpoint import CHECKPOINT, write_errors
from tinyattn.training.ranks import ALONE, Ranks
from tinyattn.training.settings import SettingError

LOCK = ".lock"
"""A file of three lines: the number of the process, its computer, and the `_age` of the earlier run
that the process is replacing, if there is one."""
TAKEN = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}
"""The errors for a lock that another process holds. After any other error the run continues without
a lock: some network drives have none."""

_held: dict[str, tuple[int, int]] = {}
"""The folders that this process has locked, with the process and the thread of each lock."""


@contextmanager
def alone_in(folder: str | Path, *, resume: bool = False, ranks: Ranks = ALONE) -> Iterator[None]:
    """A context manager in which no other process writes a run into the folder.

    The folder is created if it is missing, and removed if it is still empty at the end. The thread
    that holds the lock may enter again. Of several `ranks` only the one that writes takes the lock.

    Args: resume: whether to continue the run in the folder.
    Raises: SettingError with the number of the process that holds the lock. SettingError for
        `resume`, if a process had begun to replace the run and was killed before its first
        checkpoint. CheckpointError if the folder cannot be written.
    """
    folder, me = Path(folder), (os.getpid(), threading.get_ident())
    where = os.path.realpath(folder)
    if not ranks.writes or _held.get(where) == me:
        yield
        return
    with ExitStack() as undo:
        with write_errors():
            file = _take(folder, undo)
            _check_unbroken(folder, _lines(file)[2], resume)
            undo.callback(_remove, folder / LOCK)
        age = "" if resume else _age(folder)
        with suppress(OSError):  # a full disk: the file is locked nevertheless
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n{socket.gethostname()}\n{age}\n".encode())
        clear_leftovers(folder / CHECKPOINT)
        _held[where] = me
        undo.callback(_held.pop, where)
        yield


def _take(folder: Path, undo: ExitStack) -> FileIO:
    """The folder's lock file, open and locked; `undo` closes it and removes new folders."""
    while True:
        inner = Path(os.path.realpath(folder))
        for new in (*reversed(inner.parents), inner):
            if not new.exists():
                new.mkdir(exist_ok=True)
                undo.callback(_remove_empty, new)
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # the other process has just ended and removed the folder
        file = undo.enter_context(FileIO(descriptor, "r+"))
        if not _lock(descriptor):
            process, host, _ = _lines(file)
            by = f"process {process} (on {host})" if process else "another process"
            raise SettingError(f"{folder} is being written by {by}; wait for it or use another "
                               "--out")  # fmt: skip
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
                return file
        # The other process has removed its lock file meanwhile: try the file that is there now.


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # after the text, which other processes read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(descriptor: int) -> bool:
    """Lock a file; False if another process has locked it."""
    try:
        _try_lock(descriptor)
    except OSError as error:
        return error.errno not in TAKEN
    return True


def _lines(file: FileIO) -> list[str]:
    """The three lines of a lock file; missing lines are empty."""
    return [*file.read(1000).decode(errors="replace").split("\n"), "", "", ""][:3]


def _age(folder: Path) -> str:
    """When the folder's checkpoint was written, which identifies it; empty if there is none."""
    try:
        return str(os.stat(folder / CHECKPOINT).st_mtime_ns)
    except OSError:
        return ""


def _check_unbroken(folder: Path, replaced: str, resume: bool) -> None:
    """Raises: SettingError for a resume of a run that another run should have replaced."""
    if resume and replaced and replaced == _age(folder):
        raise SettingError(
            f"{folder} holds an earlier run; the run that should replace it was killed before its "
            "first checkpoint; begin the new run again with --overwrite, or delete "
            f"{folder / LOCK} to continue the earlier run"
        )


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows does not remove an open file; it may stay
        path.unlink()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
