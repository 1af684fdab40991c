"""Checkpoints: contents are restored, a crash loses nothing, and other files are refused."""

import errno
import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import FORMAT, Checkpoint, CheckpointError

ARRAYS = {
    "plain": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "strided": np.arange(24, dtype=np.float64).reshape(4, 6)[::2, 1::3],
    "reversed": np.arange(5, dtype=np.float32)[::-1],
    "broadcast": np.broadcast_to(np.float32(7), (3, 2)),
    "0-d": np.array(3.5),
    "empty": np.zeros((0, 3), np.float32),
    "integers": np.arange(3, dtype=np.int64),
    "extremes": np.array([np.nan, np.inf, -0.0, 5e-324]),
}
ABOUT: dict[str, Any] = {"step": 3, "vocabulary": '□⁇\n"ä\u2028', "rate": 6e-3, "more": {"a": [1]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, ARRAYS, ABOUT)
    return path


def check(saved: Checkpoint) -> None:
    """Check that the file is the one of the fixture."""
    assert saved.about == ABOUT
    assert saved.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (saved.arrays[name].dtype, saved.arrays[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(saved.arrays[name], array, err_msg=name)


def test_arrays_of_any_layout_and_everything_else_are_restored(path: Path) -> None:
    check(checkpoint.load(path))


def test_a_group_is_found_by_its_prefix() -> None:
    saved = Checkpoint({"a.x": np.zeros(1), "a.b.y": np.zeros(2), "ab.z": np.zeros(3)}, {})
    assert {n: a.size for n, a in saved.group("a").items()} == {"x": 1, "b.y": 2}


def test_a_checkpoint_is_json_and_arrays_and_no_code(path: Path) -> None:
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    about = header.pop("__metadata__")
    assert json.loads(about[FORMAT]) == ABOUT
    assert sum(array.nbytes for array in ARRAYS.values()) == len(raw) - 8 - size
    assert header.keys() == ARRAYS.keys()


def raw_file(header: dict, data: bytes = b"") -> bytes:
    """A safetensors file by hand."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


OURS = {FORMAT: "{}"}
BFLOAT = {"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "damaged"),
        (b"\x00" * 7, "damaged"),
        (b"hello, this is a text and no checkpoint\n", "damaged"),
        (np.random.default_rng(0).bytes(5000), "damaged"),
        (struct.pack("<Q", 2**63 - 1) + b"{}", "damaged"),
        (struct.pack("<Q", 50) + b"{}", "damaged"),
        (pickle.dumps({"model": 1}), "damaged"),
        (raw_file({}), "not a checkpoint of tinyattn"),
        (raw_file({"__metadata__": {"format": "pt"}, **BFLOAT}, b"\0\0\0\0"), "of tinyattn"),
        (raw_file({"__metadata__": OURS, **BFLOAT}, b"\0\0\0\0"), "bfloat16"),
        (raw_file({"__metadata__": {"tinyattn-2": "{}"}}), "another version of tinyattn"),
        (raw_file({"__metadata__": {FORMAT: "{no"}}), "header is damaged"),
        (raw_file({"__metadata__": {FORMAT: "[1]"}}), "header is damaged"),
        (raw_file({"__metadata__": {FORMAT: "[" * 10**5}}), "header is damaged"),
    ],
    ids=["empty", "7 zeros", "text", "random", "huge header", "header beyond the end", "pickle",
         "nothing in it", "foreign", "bfloat16", "older", "no JSON", "a list", "deep JSON"],
)  # fmt: skip
def test_other_files_are_refused_in_one_line(path: Path, raw: bytes, why: str) -> None:
    path.write_bytes(raw)
    with pytest.raises(CheckpointError, match=rf"checkpoint\.safetensors: .*{why}") as refused:
        checkpoint.load(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(path: Path, part: float) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: int(part * len(raw))])
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(path)


def test_a_safetensors_file_of_another_program_and_a_missing_one(tmp_path: Path) -> None:
    save_file({"x": np.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="a safetensors file, but not a checkpoint"):
        checkpoint.load(tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="no such file"):
        checkpoint.load(tmp_path / "y.safetensors")
    with pytest.raises(CheckpointError, match=tmp_path.name):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(CheckpointError, match=r"cannot be written: No space left"):
        checkpoint.save(path, {"new": np.zeros(9)}, {})
    check(checkpoint.load(path))
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_that_cannot_be_written_is_named(path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written: No such file or directory"):
        checkpoint.save(path.parent / "missing" / path.name, ARRAYS, ABOUT)
    if os.geteuid() != 0:  # the superuser may write everywhere
        path.parent.chmod(0o500)
        with pytest.raises(CheckpointError, match="cannot be written: Permission denied"):
            checkpoint.save(path, {}, {})
        path.parent.chmod(0o700)
    check(checkpoint.load(path))


KILL = """
import os, signal, sys
import numpy as np
from tinyattn.training import checkpoint
setattr(os, sys.argv[2], lambda *arguments: os.kill(os.getpid(), signal.SIGKILL))
checkpoint.save(sys.argv[1], {"new": np.zeros(9)}, {})
"""


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_process_killed_while_writing_leaves_the_old_checkpoint(path: Path, moment: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILL, path, moment], check=False)
    assert killed.returncode == -9
    check(checkpoint.load(path))
    assert len(os.listdir(path.parent)) == 2  # the incomplete file stays, and does not matter
    checkpoint.save(path, {"new": np.zeros(9)}, {})
    assert checkpoint.load(path).arrays.keys() == {"new"}
