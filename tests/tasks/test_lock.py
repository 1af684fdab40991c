"""One process per run: a second one gets an error; the lock of a killed process is ignored."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import World
from tinyattn.parsing import ParserConfig
from tinyattn.tasks import lock
from tinyattn.tasks.conversion import convert
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.lock import LOCK, alone_in
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import held_runs
from tinyattn.training.checkpoint import CHECKPOINT, CheckpointError
from tinyattn.training.ranks import Ranks
from tinyattn.training.settings import SettingError

HOLD = """
import sys, time
from tinyattn.tasks.lock import alone_in
with alone_in(sys.argv[1]):
    print("inside", flush=True)
    time.sleep(60)
"""


@contextmanager
def another(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock of the folder."""
    words = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "inside\n"
            yield process
        finally:
            process.kill()


def test_the_error_of_a_second_process_names_the_first(
    people: World, pretrained: Trained, small: Callable[..., Recipe], tmp_path: Path
) -> None:
    """From every function that writes a run, and no file is changed."""
    folder = tmp_path / "run"
    with another(folder) as process:
        before = {path: path.read_bytes() for path in folder.iterdir()}
        message = (rf"run is being written by process {process.pid} \(on {socket.gethostname()}\); "
                   "wait for it or use another --out")  # fmt: skip
        run = RunOptions(folder)
        learned = small(model__positions="learned")
        start = pretrain(people.corpus, learned, RunOptions(tmp_path / "other"))
        for use in (
            lambda: pretrain(people.corpus, small(), run),
            lambda: pretrain("", small(), run),  # before any data is checked
            lambda: finetune(people.train, small(), run, start=pretrained),
            lambda: convert(start, "bilinear", folder),
            lambda: held_runs([tmp_path / "free", folder], overwrite=True).__enter__(),
        ):
            with pytest.raises(SettingError, match=message):
                use()
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        assert not (tmp_path / "free").exists()  # the new empty folder is removed again
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (folder / LOCK).exists()  # it could not be removed
    with alone_in(folder):
        assert (folder / LOCK).read_text().split() == [str(os.getpid()), socket.gethostname()]
    assert not [*folder.iterdir()]


def test_a_parser_is_trained_by_one_process(tmp_path: Path) -> None:
    from treebank import documents

    from tinyattn.attention import Penalty
    from tinyattn.parsing.training import SETTINGS, train_parser
    from tinyattn.parsing.treebank import ParserVocabulary

    sentences = [sentence for document in documents(2) for sentence in document]
    vocabulary = ParserVocabulary.of(sentences)
    config = ParserConfig(len(vocabulary), len(vocabulary.relations))
    with another(tmp_path), pytest.raises(SettingError, match="is being written by process"):
        train_parser(sentences, vocabulary, config, SETTINGS, Penalty(), RunOptions(tmp_path))


def test_new_empty_folders_are_removed_again(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ZeroDivisionError), alone_in(tmp_path / "there" / "a" / "b"):
        raise ZeroDivisionError
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]
    with alone_in(tmp_path / "there" / "a" / "b"):
        (tmp_path / "there" / "a" / "b" / "kept").touch()
    assert [path.name for path in (tmp_path / "there" / "a" / "b").iterdir()] == ["kept"]
    with alone_in(tmp_path / "there"):
        pass
    assert (tmp_path / "there").exists()  # it existed before, empty or not


def test_a_link_to_a_folder_that_does_not_exist_yet_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("far/run")
    with alone_in(tmp_path / "link"):
        (tmp_path / "link" / "kept").touch()
    assert (tmp_path / "far" / "run" / "kept").exists() and (tmp_path / "link").is_symlink()


def test_the_holder_may_enter_again_but_no_other_thread(tmp_path: Path) -> None:
    refused = []

    def other() -> None:
        try:
            with alone_in(tmp_path):
                pass
        except SettingError as error:
            refused.append(str(error))

    with alone_in(tmp_path):
        with alone_in(tmp_path):
            pass
        (tmp_path / "link").symlink_to(tmp_path)
        with alone_in(tmp_path / "link"):
            pass
        assert (tmp_path / LOCK).exists()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1 and f"process {os.getpid()} " in refused[0]
    other()
    assert len(refused) == 1


def test_a_lock_file_that_was_removed_while_waiting_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder leaves, and its folder is removed, just after this process has opened the file."""
    folder, tried = tmp_path / "run", []
    take = lock._try_lock

    def others_leave(descriptor: int) -> None:
        take(descriptor)
        if not tried:
            (folder / LOCK).unlink()
            folder.rmdir()
        tried.append(descriptor)

    monkeypatch.setattr(lock, "_try_lock", others_leave)
    with alone_in(folder):
        assert len(tried) == 2
        assert os.path.samestat(os.fstat(tried[1]), os.stat(folder / LOCK))
    assert not folder.exists()


def test_a_run_works_without_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_try_lock", none)
    with alone_in(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()


def test_only_the_rank_that_writes_takes_the_lock(tmp_path: Path) -> None:
    class Second(Ranks):
        rank, size = 1, 2

    with alone_in(tmp_path / "run", ranks=Second()):
        assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(CheckpointError, match=r"file.*: cannot be written: (Not a dir|File exists)"),
        alone_in(tmp_path / "file" / "run"),
    ):
        raise AssertionError


def test_temporary_files_of_a_killed_process_are_removed_by_the_next_run(tmp_path: Path) -> None:
    for name in (f".{CHECKPOINT}.0123456789abcdef.tmp", ".predictions.tsv.0123456789abcdef.tmp"):
        (tmp_path / name).touch()
    with alone_in(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {
            LOCK,
            name,
        }  # perhaps of another program


@pytest.mark.parametrize("text", ["", "\0\xff\n", "12\nhost\nnever\n", "12\n" * 1000])
def test_the_contents_of_a_lock_file_do_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK).write_text(text, encoding="latin-1")
    (tmp_path / CHECKPOINT).touch()
    with alone_in(tmp_path, resume=True):
        assert (tmp_path / LOCK).read_text().split() == [str(os.getpid()), socket.gethostname()]


def test_a_run_killed_before_its_first_checkpoint_keeps_the_old_run(tmp_path: Path) -> None:
    """--resume would otherwise continue the run that it was to replace."""
    saved = tmp_path / CHECKPOINT
    saved.write_text("earlier")
    with another(tmp_path):
        pass
    left = (tmp_path / LOCK).read_text()
    for _ in range(2):
        with (
            pytest.raises(SettingError, match=r"killed before its first checkpoint; .*--overwrite"),
            alone_in(tmp_path, resume=True),
        ):
            raise AssertionError
        assert (tmp_path / LOCK).read_text() == left
    with alone_in(tmp_path):
        pass  # it may be started again
    with another(tmp_path):
        stamp: Any = saved.stat()
        saved.write_text("its own")
        os.utime(saved, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    with alone_in(tmp_path, resume=True):
        pass
