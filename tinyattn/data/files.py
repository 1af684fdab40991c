"""Chapter 6: writing files.

A disk fills, a process is killed, a limit is met; and then a file that was being rewritten in place
is neither the old one nor the new one. So what this package writes as a whole goes to a temporary
file beside the old one, is forced to the disk, and takes the old one's name: at any moment there is
all of the one or all of the other. A run's log grows line by line instead (training/metrics.py).
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
"""What a file should hold: bytes; or a text, which becomes UTF-8 with the line ends that it has; or
None if there should be no such file."""

CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
"""What a file system says that cannot force a file to the disk. Any other error of fsync means that
the file did not arrive there."""


def write(path: str | Path, content: str | bytes) -> None:
    """Give one file a new content: all of it, or none. See `write_all`."""
    write_all({Path(path): content})


def write_all(files: Mapping[Path, Content]) -> None:
    """Give several files new contents: all are on the disk before the first one takes its name, and
    what is to go goes last.

    A link is followed, also to a file that is not there yet, and stays, even where that file is to
    go. A file keeps its
    permissions and is not replaced if it may not be written. What is no regular file (a pipe, a
    terminal, /dev/null), or is this process's own output, is written as it stands.

    Raises: OSError that names the file which cannot be written. If that is for want of room or of
        permission, all files are as they were.
    """
    beside: dict[Path, tuple[str, str]] = {}  # each with its temporary file, and the name to take
    try:
        for path, content in files.items():
            with _named(path):
                target, there = _look(path)
                if content is not None and _is_replaced(there):
                    beside[path] = _write_beside(target, there, _encoded(content)), target
        for path, content in files.items():
            with _named(path):
                if path in beside:
                    os.replace(*beside[path])
                elif content is not None:
                    _write_as_it_stands(path, _encoded(content))
        for path in [path for path, content in files.items() if content is None]:
            with _named(path):
                Path(_look(path)[0]).unlink(missing_ok=True)
    finally:
        for temporary, _ in beside.values():
            with suppress(OSError):  # most often: it has taken its name
                os.unlink(temporary)
    for folder in {os.path.dirname(target) for _, target in beside.values()}:
        _sync_folder(folder)


def append(path: str | Path, line: str) -> None:
    """Add a line to the end of a file. A full disk may cut it short; earlier lines stay.

    Raises: OSError that names the file.
    """
    with _named(path), open(path, "ab") as file:
        file.write(line.encode("utf-8"))


def check_writable(path: str | Path) -> None:
    """Learn before the work, not after it, that a file cannot be written; nothing is changed.

    Raises: OSError that names the file.
    """
    with _named(path):
        target, there = _look(path)
        if _is_replaced(there):
            os.unlink(_write_beside(target, there, b""))
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def clear_leftovers(path: Path) -> None:
    """Remove what processes that were killed while they wrote a file have left beside it.

    Only for a file that nobody else can be writing now.
    """
    for left in path.parent.glob(glob.escape(f".{path.name[:40]}.") + "*.tmp"):
        with suppress(OSError):
            left.unlink()


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Inside, an OSError is about this file, and not about a temporary one."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _encoded(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content


def _look(path: str | Path) -> tuple[str, os.stat_result | None]:
    """Where a path leads to, and what is there. Raises: OSError for a folder or a ring of links."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return os.path.realpath(path), None
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return os.path.realpath(path), there


def _is_replaced(there: os.stat_result | None) -> bool:
    """Whether a file goes beside what is there and takes its name."""
    return there is None or (stat.S_ISREG(there.st_mode) and _stream(there) is None)


def _stream(there: os.stat_result) -> int | None:
    """The descriptor of this process's stdout or stderr, if that is the file."""
    for number in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(os.fstat(number), there):
                return number
    return None


def _write_as_it_stands(path: Path, raw: bytes) -> None:
    stream = _stream(os.stat(path))
    with open(path if stream is None else os.dup(stream), "wb") as file:
        file.write(raw)


def _write_beside(target: str, there: os.stat_result | None, raw: bytes) -> str:
    """Write a temporary file beside `target`, with the permissions of what is there."""
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    folder, name = os.path.split(target)
    # A name of its own, so that two who save at once do not write one file; short, if that is long.
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if there is not None:
                with suppress(OSError, AttributeError):  # another's; Windows has no owners
                    os.chown(temporary, there.st_uid, there.st_gid)
                with suppress(OSError):  # a file system that has none
                    os.chmod(temporary, stat.S_IMODE(there.st_mode))
            if raw:  # of an empty file there is nothing to lose
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
    """Force new names to the disk too, where the system can: the files are whole in any case."""
    if os.name == "posix":  # Windows cannot
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
