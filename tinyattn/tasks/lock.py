"""Chapter 6: one run, one process.

Two processes that train into the same folder would each replace what the other has learned. So who
writes a run holds a lock: a file in its folder that says which process that is, locked by the
operating system, which gives it free when the process ends, however it ends.
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
"""A file of three lines: the number of the process, its computer, and if it began a new run where
another one lay, that one's `_age`."""
TAKEN = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK}
"""What a system says of a lock that another process has. Any other error: there are no locks, as on
some network drives, and the run goes on without."""

_held: dict[str, tuple[int, int]] = {}
"""The folders that are locked from here, and the process and the thread that are in them."""


@contextmanager
def alone_in(folder: str | Path, *, resume: bool = False, ranks: Ranks = ALONE) -> Iterator[None]:
    """Inside, nobody else writes a run into the folder. It is made if it is missing, and goes again
    if it is still empty at the end.

    Who is inside may go in once more. Of several `ranks` only the one that writes takes the lock.

    Args: resume: whether to go on with the run that is there.
    Raises: SettingError with the process that is inside; or for `resume`, if one was killed that
        had begun another run and not kept a checkpoint of it. CheckpointError if the folder cannot
        be written.
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
        with suppress(OSError):  # a full disk: it is locked all the same
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n{socket.gethostname()}\n{age}\n".encode())
        clear_leftovers(folder / CHECKPOINT)
        _held[where] = me
        undo.callback(_held.pop, where)
        yield


def _take(folder: Path, undo: ExitStack) -> FileIO:
    """The folder's lock file, open and locked; what gives it back is left to `undo`."""
    while True:
        inner = Path(os.path.realpath(folder))
        for new in (*reversed(inner.parents), inner):
            if not new.exists():
                new.mkdir(exist_ok=True)
                undo.callback(_remove_empty, new)
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # who was inside has just left, and with it the folder
        file = undo.enter_context(FileIO(descriptor, "r+"))
        if not _lock(descriptor):
            process, host, _ = _lines(file)
            by = f"process {process} (on {host})" if process else "another process"
            raise SettingError(f"{folder} is being written by {by}; wait for it or take another "
                               "--out")  # fmt: skip
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
                return file
        # Who was inside has removed its lock while this one waited: try the one that is there now.


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # behind the text, which others should read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(descriptor: int) -> bool:
    """Lock a file; False if another process has."""
    try:
        _try_lock(descriptor)
    except OSError as error:
        return error.errno not in TAKEN
    return True


def _lines(file: FileIO) -> list[str]:
    """The three lines of a lock file; what is not there is empty."""
    return [*file.read(1000).decode(errors="replace").split("\n"), "", "", ""][:3]


def _age(folder: Path) -> str:
    """What tells a checkpoint from its successor: when it was written; empty if there is none."""
    try:
        return str(os.stat(folder / CHECKPOINT).st_mtime_ns)
    except OSError:
        return ""


def _check_unbroken(folder: Path, replaced: str, resume: bool) -> None:
    """Raises: SettingError if the run that would go on is one that another should have replaced."""
    if resume and replaced and replaced == _age(folder):
        raise SettingError(
            f"{folder} holds an earlier run; the one that was to replace it was killed before its "
            f"first checkpoint; begin that again with --overwrite, or delete {folder / LOCK} to go "
            "on with the earlier one"
        )


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows keeps a file that is open; it is no harm
        path.unlink()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
