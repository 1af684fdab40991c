"""Two processes train like one; if one is lost, the saved run can be resumed."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tinyattn.cli import main
from tinyattn.data import make_world
from tinyattn.parallel.mpi import (
    LAUNCHED,
    NEIGHBOURS,
    PLACE,
    MPIRanks,
    default_workers,
    joined,
    started,
)
from tinyattn.parallel.threads import available_cores
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.ranks import ALONE, MissingMPI, Ranks, all_ranks

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None,
    reason="needs mpi4py and mpiexec: pip install 'tinyattn[mpi]'",
)
SETTINGS = {
    "model.context": 80, "model.layers": 2, "model.heads": 2, "model.width": 16,
    "model.dropout": 0.1, "data.longest": 72, "pretrain.batch": 7, "finetune.batch": 5,
}  # fmt: skip
SETS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_world(people=12, places=3, sentences=2, dev=4, test=2).save(folder)
    return folder


def command(ranks: int, *words: Any) -> list[str]:
    program = [sys.executable, "-m", "tinyattn", *map(str, words)]
    return program if ranks == 1 else ["mpiexec", "-n", str(ranks), *program]


def call(ranks: int, *words: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(ranks, *words), capture_output=True, text=True, timeout=120, check=False
    )


def pretrain(ranks: int, world: Path, out: Path, *more: Any) -> str:
    done = call(ranks, "pretrain", world / "corpus.txt", "--recipe", "world", *SETS,
                "--workers", 1, "--out", out, *more)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(folder / METRICS)]


@needs_mpi
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_processes_train_like_one(world: Path, tmp_path: Path, optimizer: str) -> None:
    result, found = [], []
    for ranks in (1, 2):
        out = tmp_path / str(ranks)
        more = ["--set", f"pretrain.optimizer={optimizer}", "--steps", 8]
        result.append(pretrain(ranks, world, out, *more))
        tune = call(ranks, "finetune", world / "birth_train.tsv", "--from", out, "--workers", 1,
                    "--steps", 4, "--out", out / "tuned")  # fmt: skip
        assert tune.returncode == 0, tune.stderr
        found.append(losses(out) + losses(out / "tuned"))
        assert {path.name for path in out.iterdir()} >= {CHECKPOINT, METRICS, "config.toml"}
    assert len(found[0]) == 12 and found[1] == pytest.approx(found[0], abs=1e-5)
    assert all(text.count("pretrained on") == 1 for text in result)  # one of them prints


@needs_mpi
def test_two_processes_resume_a_run_of_two(world: Path, tmp_path: Path) -> None:
    """All bits are equal."""
    constant = ["--set", "pretrain.schedule=constant"]
    pretrain(2, world, tmp_path / "a", "--steps", 9, *constant)
    pretrain(2, world, tmp_path / "b", "--steps", 5, *constant)
    pretrain(2, world, tmp_path / "b", "--steps", 9, "--resume")
    a, b = (checkpoint.load(tmp_path / name / CHECKPOINT) for name in "ab")
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name])
    assert losses(tmp_path / "a") == losses(tmp_path / "b")


@needs_mpi
@pytest.mark.parametrize("which", [0, 1])
def test_a_lost_process_ends_the_run_and_its_checkpoint_can_be_resumed(
    world: Path, tmp_path: Path, which: int
) -> None:
    """Here it is saved after every step, so that a process may be lost while it is written."""
    file = tmp_path / "keep" / "tinyattn"
    file.parent.mkdir()
    file.write_text(
        "from tinyattn.cli import main\n"
        "from tinyattn.training import keep\n"
        "keep.SAVE_SECONDS = 0\n"
        "main()\n"
    )
    out = tmp_path / "out"
    words = ["pretrain", world / "corpus.txt", "--recipe", "world", *SETS, "--workers", 1]
    more = ["--set", "pretrain.schedule=constant", "--out", out]
    with subprocess.Popen(
        ["mpiexec", "-n", "2", sys.executable, *map(str, [file, *words, *more, "--steps", 10**6])],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as run:  # fmt: skip
        strike(run, out, which, signal.SIGKILL)
        printed = run.communicate(timeout=60)[0]
    assert (
        run.returncode != 0 and "signal 9" in printed
    )  # mpiexec prints it: no other process is left
    kept = checkpoint.load(out / CHECKPOINT).about["step"]
    assert kept >= 2
    done = call(2, *words, *more, "--steps", kept + 2, "--resume")
    assert done.returncode == 0 and f"step {kept + 2}, loss" in done.stdout, done.stderr


@needs_mpi
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_one_process_stops_all_after_the_same_step(
    world: Path, tmp_path: Path, which: int, number: int
) -> None:
    words = ["pretrain", world / "corpus.txt", "--recipe", "world", *SETS, "--workers", 1]
    with subprocess.Popen(
        command(2, *words, "--out", tmp_path, "--steps", 10**6),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        strike(run, tmp_path, which, number)
        printed = run.communicate(timeout=60)[1]
    step = checkpoint.load(tmp_path / CHECKPOINT).about["step"]
    by = "" if number == signal.SIGINT else " by SIGTERM"
    assert f"stopped{by} after step {step} of 1000000; go on with: mpiexec -n 2 tinyattn" in printed
    assert run.returncode != 0 and printed.count("stopped") == 1  # only the first prints it
    assert not list(tmp_path.glob("*.tmp*"))


def strike(run: "subprocess.Popen[str]", folder: Path, which: int, number: int) -> None:
    """Send a signal to one of a run's processes after three logged steps."""
    deadline = time.monotonic() + 60
    while len(losses(folder)) < 3:
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(sorted(ranks_of(run.pid))[which], number)


def ranks_of(pid: int) -> list[int]:
    """The child processes of another that run tinyattn."""
    found, below = [], [pid]
    for parent in below:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        below += [int(child) for child in children.read_text().split()]
    for process in below:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if any(word.endswith(b"tinyattn") for word in words) and b"-n" not in words:
            found.append(process)
    return found


@needs_mpi
def test_an_error_of_one_process_ends_all(world: Path, tmp_path: Path) -> None:
    """Otherwise the others would wait; one line has the error."""
    file = tmp_path / "alone.py"
    file.write_text(
        "import sys\n"
        "from tinyattn.parallel.mpi import joined\n"
        "from tinyattn.cli import main\n"
        "corpus = sys.argv[1] if joined('cpu').rank else sys.argv[2]\n"
        "sys.argv[1:] = ['pretrain', corpus, *sys.argv[3:]]\n"
        "main()\n"
    )
    words = ["mpiexec", "-n", "2", sys.executable, file, tmp_path / "none.txt",
             world / "corpus.txt", "--recipe", "world", *SETS, "--out", tmp_path]  # fmt: skip
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "none.txt: no such file" in done.stderr and "Traceback" not in done.stderr


@needs_mpi
def test_an_error_of_all_processes_is_printed_once(tmp_path: Path) -> None:
    done = call(2, "pretrain", tmp_path / "none.txt", "--out", tmp_path / "out")
    assert done.returncode != 0 and done.stderr.count("none.txt: no such file") == 1


@needs_mpi
@pytest.mark.parametrize("name", ["quickstart", "info"])
def test_settings_that_cannot_be_shared_are_refused(name: str) -> None:
    done = call(2, name)
    assert done.returncode == 2
    assert f"can share pretrain, finetune and train, not {name}; leave out mpiexec" in done.stderr


@needs_mpi
def test_processes_with_different_settings_raise_an_error(world: Path, tmp_path: Path) -> None:
    file = tmp_path / "differ.py"
    file.write_text(
        "import sys\n"
        "from tinyattn.parallel.mpi import joined\n"
        "from tinyattn.cli import main\n"
        "sys.argv += [sys.argv.pop(1), str(int(sys.argv.pop(1)) + joined('cpu').rank)]\n"
        "main()\n"
    )
    for option in ("--seed", "--workers"):
        words = [option, 1, "pretrain", world / "corpus.txt", "--recipe", "world", *SETS,
                 "--steps", 2, "--out", tmp_path / "out"]  # fmt: skip
        done = subprocess.run(
            ["mpiexec", "-n", "2", sys.executable, str(file), *map(str, words)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode != 0 and "Traceback" not in done.stderr
        assert done.stderr.count("processes of this run differ in settings, data,") == 1
        assert not (tmp_path / "out" / CHECKPOINT).exists()


def test_a_single_process_waits_for_no_other() -> None:
    for ranks in (all_ranks(np), all_ranks(np, "cuda")):
        assert type(ranks) is Ranks and ranks.writes
        assert ranks.any_of(True) and not ranks.any_of(False)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment of a single process, without mpi4py."""
    for name in (*LAUNCHED, *NEIGHBOURS, *PLACE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    joined.cache_clear()
    yield monkeypatch
    joined.cache_clear()


@pytest.mark.parametrize("name", LAUNCHED)
def test_variables_of_a_scheduler_in_the_environment_are_named(
    alone: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    """A number above 1 without MPI, and invalid values; no value and 1 mean a single process."""
    for text in ("", " ", "1"):
        alone.setenv(name, text)
        joined.cache_clear()
        assert started() == 1 and all_ranks(np) is ALONE
    joined.cache_clear()
    for text in ("x", "0", "-3", "2.5", "٣", "9" * 9, "9" * 30, "9" * 5000):
        alone.setenv(name, text)
        rule = f"^{name}, in the environment, must be a whole number from [01] to 100000000; got"
        with pytest.raises(MissingMPI, match=f"{rule} .* unset it to"):
            all_ranks(np)
    alone.setenv(name, "4")
    with pytest.raises(MissingMPI, match=f"mpi4py is missing; .* alone, unset {name}, which is"):
        all_ranks(np)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\ntwo\n")
    for words, message in [
        (["info"], f"not info; leave out mpiexec; to run alone, unset {name}, which is"),
        (["pretrain", str(corpus)], f"mpi4py is missing; .* alone, unset {name}, which is 4"),
    ]:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2 and re.search(message, result.stderr), result.stderr
        assert result.stderr.count("\n") == 1


def test_the_number_of_processes_and_the_rank_with_several_processes(
    alone: pytest.MonkeyPatch,
) -> None:
    for name in (*NEIGHBOURS, *PLACE):
        alone.setenv(name, "x")
    assert default_workers(ALONE) == default_workers(Ranks()) == available_cores()
    others = MPIRanks.__new__(MPIRanks)
    others.size = 10**6
    with pytest.raises(MissingMPI, match=f"^{NEIGHBOURS[0]}, in the environment, must be"):
        default_workers(others)
    alone.setenv(NEIGHBOURS[0], "")
    alone.setenv(NEIGHBOURS[1], "1")
    assert default_workers(others) == available_cores()
    alone.delenv(NEIGHBOURS[1])
    assert default_workers(others) == 1


def test_the_error_of_mpi_names_how_to_run_a_single_process(alone: pytest.MonkeyPatch) -> None:
    mpi = SimpleNamespace(COMM_WORLD=SimpleNamespace(rank=0, size=1))
    alone.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=mpi))
    alone.setenv("SLURM_STEP_NUM_TASKS", "4")

    class WithoutLibrary:
        @property
        def MPI(self) -> Any:
            raise RuntimeError("cannot load MPI library\nlibmpi.so: no such file")

    with pytest.raises(MissingMPI, match=r"started 4 processes, but mpi4py finds 1: .*, unset "
                                         r"SLURM_STEP_NUM_TASKS, which is 4"):  # fmt: skip
        all_ranks(np)
    alone.setitem(sys.modules, "mpi4py", WithoutLibrary())
    with pytest.raises(MissingMPI, match=r"finds no MPI; .* alone, unset SLURM_STEP_NUM_TASKS"):
        all_ranks(np)


def test_the_error_without_mpi4py_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, world: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingMPI, match=r"pip install 'tinyattn\[mpi\]'"):
        MPIRanks()
    (tmp_path / "mpi4py.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        command(1, "pretrain", world / "corpus.txt", "--out", tmp_path / "out"),
        env={**os.environ, LAUNCHED[0]: "2", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tinyattn: started by mpiexec, but mpi4py is missing; install")
    assert done.stderr.count("\n") == 1
