"""Chapter 6: writing files safely.

A disk may be full, or a process killed, while a file is rewritten in place. The file is then
neither the old one nor the new one. So this package writes new contents to a temporary file beside
the old one, forces it to the disk, and gives it the old one's name. At any moment there is the
complete old file or the complete new one. Only the log of a run grows line by line
(training/metrics.py).
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

Content = str | bytes | None
"""The contents of a file: bytes; a string, which is written as UTF-8 with unchanged line ends; or
None, which removes the file."""

CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
"""The errors of a file system that cannot force a file to the disk. Any other error of fsync means
that the contents did not reach the disk."""


def write(path: str | Path, content: str | bytes) -> None:
    """Replace the contents of one file, completely or not at all. See `write_all`."""
    write_all({Path(path): content})


def write_all(files: Mapping[Path, Content]) -> None:
    """Replace the contents of several files.

    All new contents are on the disk before the first file is replaced, and files are removed last.
    A link stays, and the file that it leads to is replaced, created or removed. A file keeps its
    permissions, and is not replaced if it is write-protected. A pipe, a terminal, /dev/null and
    this process's own output are not replaced but written to.

    Raises: OSError with the name of the file that cannot be written. If the disk is full or a
        permission is missing, all files are unchanged.
    """
    beside: dict[Path, tuple[str, str]] = {}  # path -> (temporary file, name that it will get)
    try:
        for path, content in files.items():
            with _named(path):
                target, there = _target(path)
                if content is not None and _is_replaced(there):
                    beside[path] = _write_beside(target, there, _encoded(content)), target
        for path, content in files.items():
            with _named(path):
                if path in beside:
                    os.replace(*beside[path])
                elif content is not None:
                    _write_in_place(path, _encoded(content))
        for path in [path for path, content in files.items() if content is None]:
            with _named(path):
                Path(_target(path)[0]).unlink(missing_ok=True)
    finally:
        for temporary, _ in beside.values():
            with suppress(OSError):  # usually it is gone: it was renamed
                os.unlink(temporary)
    for folder in {os.path.dirname(target) for _, target in beside.values()}:
        _sync_folder(folder)


def append(path: str | Path, line: str) -> None:
    """Append a line to a file. A full disk may cut it short; earlier lines stay.

    Raises: OSError with the name of the file.
    """
    with _named(path), open(path, "ab") as file:
        file.write(line.encode("utf-8"))


def check_writable(path: str | Path) -> None:
    """Check that a file can be written, before the work for it begins; nothing is changed.

    Raises: OSError with the name of the file, if it cannot.
    """
    with _named(path):
        target, there = _target(path)
        if _is_replaced(there):
            os.unlink(_write_beside(target, there, b""))
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def clear_leftovers(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file.

    Only for a file that no other process can be writing now.
    """
    for left in path.parent.glob(glob.escape(f".{path.name[:40]}.") + "*.tmp"):
        with suppress(OSError):
            left.unlink()


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """A context manager that puts this file's name into an OSError, not a temporary one."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _encoded(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _target(path: str | Path) -> tuple[str, os.stat_result | None]:
    """The file that a path leads to, and its status. Raises: OSError for a folder or link loop."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return os.path.realpath(path), None
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return os.path.realpath(path), there


def _is_replaced(there: os.stat_result | None) -> bool:
    """Whether a new file replaces this one: if it is a regular file or does not exist."""
    return there is None or (stat.S_ISREG(there.st_mode) and _stream(there) is None)


def _stream(there: os.stat_result) -> int | None:
    """The descriptor of this process's stdout or stderr if it is this file; None otherwise."""
    for number in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(os.fstat(number), there):
                return number
    return None


def _write_in_place(path: Path, raw: bytes) -> None:
    stream = _stream(os.stat(path))
    with open(path if stream is None else os.dup(stream), "wb") as file:
        file.write(raw)


def _write_beside(target: str, there: os.stat_result | None, raw: bytes) -> str:
    """Write a temporary file beside `target`, with the permissions of the existing file."""
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    folder, name = os.path.split(target)
    # A unique name, so that no two processes write one file; short even if `name` is long.
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if there is not None:
                with suppress(OSError, AttributeError):  # another user's; Windows has no owners
                    os.chown(temporary, there.st_uid, there.st_gid)
                with suppress(OSError):  # no permissions in this file system
                    os.chmod(temporary, stat.S_IMODE(there.st_mode))
            if raw:  # an empty file needs no fsync
                file.write(raw)
                file.flush()
                _sync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _sync(descriptor: int) -> None:
    """Force a file to the disk."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise


def _sync_folder(folder: str) -> None:
    """Force new names to the disk too, if the system can; the files are complete in any case."""
    if os.name == "posix":  # Windows cannot
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
