"""Writing files: at any time a file is either the whole old one or the whole new one."""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import files
from tinyattn.data.files import append, check_writable, clear_leftovers, write, write_all

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions of POSIX")


def failing(number: int, *, when: Callable[..., bool] = lambda *a: True) -> Callable[..., Any]:
    """A function of `os` that fails like that of the system."""

    def fail(*arguments: Any, **more: Any) -> Any:
        if when(*arguments):
            raise OSError(number, os.strerror(number))
        return None

    return fail


def is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_bytes_and_texts_are_written_unchanged(tmp_path: Path) -> None:
    write(tmp_path / "a", b"\0\xff")
    write(str(tmp_path / "b"), "Zürich\r\n\n")
    assert (tmp_path / "a").read_bytes() == b"\0\xff"
    assert (tmp_path / "b").read_bytes() == "Zürich\r\n\n".encode()
    write(tmp_path / "a", "")
    assert (tmp_path / "a").read_bytes() == b""
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_failure_changes_no_file_and_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    monkeypatch.setattr(os, call, failing(number))
    with pytest.raises(OSError, match="first") as raised:
        write_all({first: "new", second: "new"})
    assert (raised.value.errno, raised.value.filename) == (number, str(first))
    assert os.listdir(tmp_path) == ["first"] and first.read_text() == "old"


def test_of_several_files_none_changes_if_one_cannot(tmp_path: Path) -> None:
    kept, gone, folder = tmp_path / "kept", tmp_path / "gone", tmp_path / "folder"
    kept.write_text("old")
    gone.write_text("old")
    folder.mkdir()
    for bad in (folder, tmp_path / "missing" / "file"):
        with pytest.raises(OSError, match=bad.name):
            write_all({kept: "new", gone: None, bad: "new"})
    assert kept.read_text() == gone.read_text() == "old" and len(os.listdir(tmp_path)) == 3
    write_all({kept: "new", gone: None, tmp_path / "never there": None})
    assert kept.read_text() == "new" and sorted(os.listdir(tmp_path)) == ["folder", "kept"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_folder_that_cannot_be_synced_has_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """Network and container file systems raise this error after the file has its name."""
    when = is_folder if call == "fsync" else lambda path, *more: os.path.isdir(path)
    monkeypatch.setattr(os, call, failing(number, when=when))
    write(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_a_file_system_without_sync_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in files.CANNOT_SYNC:
        monkeypatch.setattr(os, "fsync", failing(number))
        write(tmp_path / "a", str(number))
        assert (tmp_path / "a").read_text() == str(number)


@posix
def test_a_link_is_written_through_and_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    there, link, dangling = tmp_path / "far" / "there", tmp_path / "link", tmp_path / "dangling"
    there.write_text("old")
    link.symlink_to("far/there")
    dangling.symlink_to(tmp_path / "link to come")
    (tmp_path / "link to come").symlink_to("far/new")
    for path in (link, dangling):
        check_writable(path)
        write(path, "new")
        assert path.is_symlink() and path.read_text() == "new"
    assert sorted(os.listdir(tmp_path / "far")) == ["new", "there"]
    assert not there.is_symlink() and (tmp_path / "link to come").is_symlink()
    write_all({link: None, dangling: None})
    assert link.is_symlink() and dangling.is_symlink()
    assert os.listdir(tmp_path / "far") == []


@posix
def test_a_link_that_leads_nowhere_is_named_and_stays(tmp_path: Path) -> None:
    nowhere, ring = tmp_path / "nowhere", tmp_path / "ring"
    nowhere.symlink_to("missing/file")
    ring.symlink_to("ring")
    for path, number in ((nowhere, errno.ENOENT), (ring, errno.ELOOP)):
        for use in (check_writable, lambda path: write(path, "new")):
            with pytest.raises(OSError) as raised:
                use(path)
            assert (raised.value.errno, raised.value.filename) == (number, str(path))
    assert nowhere.is_symlink() and ring.is_symlink() and len(os.listdir(tmp_path)) == 2


@posix
def test_permissions_stay_and_new_files_have_the_default_ones(tmp_path: Path) -> None:
    path, before = tmp_path / "a", os.umask(0o027)
    try:
        write(path, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for mode in (0o600, 0o664, 0o755):
        path.chmod(mode)
        write(path, str(mode))
        assert stat.S_IMODE(path.stat().st_mode) == mode
    if os.geteuid() != 0:  # the superuser may write everywhere
        path.chmod(0o400)
        for use in (check_writable, lambda path: write(path, "new")):
            with pytest.raises(PermissionError, match=r"'.*a'"):
                use(path)
        assert path.read_text() == str(0o755)


@posix
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    check_writable(pipe)  # without waiting for a reader
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe, "through")
    reader.join()
    assert read == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)
    write("/dev/null", "nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


OWN_OUTPUT = """
from tinyattn.data.files import check_writable, write
print("before", flush=True)
check_writable("/dev/stdout")
write("/dev/stdout", "written\\n")
print("after", flush=True)
"""


@posix
@pytest.mark.parametrize("where", ["a file", "a pipe"])
def test_standard_output_is_written_to_wherever_it_goes(tmp_path: Path, where: str) -> None:
    if where == "a pipe":
        contents = subprocess.run([sys.executable, "-c", OWN_OUTPUT], stdout=subprocess.PIPE).stdout
    else:
        with open(tmp_path / "out", "wb") as out:
            subprocess.run([sys.executable, "-c", OWN_OUTPUT], stdout=out, check=True)
        contents = (tmp_path / "out").read_bytes()
    assert contents == b"before\nwritten\nafter\n"


def test_two_processes_that_save_at_once_do_not_interfere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have their temporary files at the same time, and the last to rename wins."""
    path, met = tmp_path / "a", threading.Barrier(2, timeout=10)
    replace = os.replace

    def together(*arguments: Any) -> None:
        met.wait()
        replace(*arguments)

    monkeypatch.setattr(os, "replace", together)
    texts = ["a" * 100_000, "b" * 100_000]
    savers = [threading.Thread(target=write, args=(path, text)) for text in texts]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert path.read_text() in texts and os.listdir(tmp_path) == ["a"]


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 120 + ".tsv")
    write(path, "new")
    assert path.read_text() == "new"


def test_only_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "a[1].b"
    others = [".a[1].b", ".a1.b.0.tmp", ".other.0.tmp", "a[1].b.tmp"]
    for name in ["a[1].b", ".a[1].b.0123456789abcdef.tmp", *others]:
        (tmp_path / name).touch()
    clear_leftovers(path)
    assert sorted(os.listdir(tmp_path)) == sorted(["a[1].b", *others])


LIMITED = """
import resource, sys
from pathlib import Path
from tinyattn.data.files import append, write_all
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
kept, long = map(Path, sys.argv[1:])
try:
    write_all({kept: "new", long: "new" * 1000})
except OSError as error:
    print(error.filename, error.strerror)
try:
    append(long, "new" * 1000)
except OSError as error:
    print(error.filename, error.strerror)
"""


@posix
def test_a_file_size_limit_damages_no_file(tmp_path: Path) -> None:
    """ulimit -f. An added line may be incomplete; the earlier lines stay."""
    kept, long = tmp_path / "kept", tmp_path / "long"
    kept.write_text("old")
    long.write_text("old")
    done = subprocess.run([sys.executable, "-c", LIMITED, kept, long], capture_output=True,
                          text=True)  # fmt: skip
    assert done.stdout == f"{long} File too large\n" * 2, done.stderr
    assert kept.read_text() == "old" and long.read_text().startswith("oldnew")
    assert sorted(os.listdir(tmp_path)) == ["kept", "long"]


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("old")
    before = there.stat().st_mtime_ns
    check_writable(there)
    check_writable(tmp_path / "new")
    assert (there.read_text(), there.stat().st_mtime_ns) == ("old", before)
    assert os.listdir(tmp_path) == ["there"]
    for bad, number in ((tmp_path, errno.EISDIR), (tmp_path / "no" / "file", errno.ENOENT)):
        with pytest.raises(OSError, match=bad.name) as raised:
            check_writable(bad)
        assert raised.value.errno == number


def test_a_line_is_added(tmp_path: Path) -> None:
    append(tmp_path / "a", "ä\n")
    append(tmp_path / "a", "b\n")
    assert (tmp_path / "a").read_bytes() == "ä\nb\n".encode()
    with pytest.raises(OSError, match=tmp_path.name):
        append(tmp_path, "c")
