"""Contenders are processes: tinyattn against itself, and against programs that fail."""

import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

TINY = {"size": "tiny", "batch": 2, "dropout": 0, "threads": 1}


def test_tinyattn_against_itself(bench: SimpleNamespace) -> None:
    """A peer that cannot run is named with the reason."""
    Program = bench.contender.Program
    broken = Program("tinyattn", "step_tinyattn.py", ("--no-such-option",))
    uncompiled = Program("tinyattn", "step_tinyattn.py", command="no-such-compiler")
    entrants = {"tinyattn": bench.workloads.STEP, "itself": bench.workloads.STEP,
                "broken": broken, "uncompiled": uncompiled}  # fmt: skip
    length = bench.race.Length(launches=1, rounds=2, turn=2)
    results, missing = bench.race.race(entrants, TINY, length)
    assert set(results) == {"tinyattn", "itself"}
    assert "--no-such-option" in missing["broken"]
    assert "no-such-compiler" in missing["uncompiled"]
    for result in results.values():
        assert len(result.seconds) == len(result.cpu) == 2 and min(result.seconds) > 0
        assert len(result.memory) == 1 and result.memory[0] > 0
        assert f"NumPy {np.__version__}" in result.version
    ours, theirs = results["tinyattn"].first, results["itself"].first
    assert bench.agreement.difference(ours, theirs) == 0
    assert ours[0] > ours[1] > ours[2]  # it learns


@pytest.mark.parametrize("steps", [3, 4, 5])  # it ends in the first round, the second, the last
def test_a_peer_that_ends_early_leaves_the_race(
    bench: SimpleNamespace, program: Callable[..., Any], steps: int
) -> None:
    """The others go on; tinyattn must not end."""
    well = program("well", "step = lambda: 1")
    dying = program("dying", f"answers = iter([1] * {steps})\nstep = lambda: next(answers)")
    length = bench.race.Length(launches=1, rounds=3, turn=1)
    entrants = {"tinyattn": well, "dying": dying, "other": well}
    results, missing = bench.race.race(entrants, {}, length)
    assert missing == {"dying": "StopIteration"} and set(results) == {"tinyattn", "other"}
    assert all(len(r.seconds) == 3 and len(r.memory) == 1 for r in results.values())
    with pytest.raises(bench.contender.ContenderError, match="StopIteration"):
        bench.race.race({"tinyattn": dying, "other": well}, {}, length)


def test_the_output_of_a_library_is_no_answer(
    bench: SimpleNamespace, program: Callable[..., Any]
) -> None:
    prints = "print('using the CPU')\nprint('loading .. ', end='')"
    chatty = program("chatty 1.0", "def step():\n    print('working')\n    return 7", prints)
    with bench.contender.Contender(chatty, {}) as contender:
        assert contender.version == "chatty 1.0"
        assert [contender.step()["result"] for _ in range(2)] == [7, 7]


def test_an_interrupt_leaves_no_process_behind(
    bench: SimpleNamespace, program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object) -> str:
        raise KeyboardInterrupt

    contender = bench.contender.Contender(program("one", "step = lambda: 1"), {})
    monkeypatch.setattr(bench.contender.Contender, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt), contender:
        pass
    assert contender._process.poll() is not None and contender._errors.closed


def test_more_threads_than_rows_change_nothing(bench: SimpleNamespace) -> None:
    """Two rows for four threads."""
    one = bench.agreement.first_answers(bench.workloads.STEP, TINY)
    four = bench.agreement.first_answers(bench.workloads.STEP, {**TINY, "threads": 4})
    assert bench.agreement.difference(one, four) < bench.agreement.TOLERANCE


def test_different_work_is_noticed(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other GELU, which makes less of a difference in a tiny model than in A5's."""
    monkeypatch.setattr(bench.rows, "TOLERANCE", 1e-7)
    ours = bench.workloads.STEP
    tanh = bench.contender.Program("tinyattn", "step_tinyattn.py", ("--gelu", "tanh"))
    options = {**TINY, "dropout": 0.1, "batch": 4}
    workload = bench.workloads.Race("step", "tiny step, batch 4", options, {})
    notes = bench.rows.Notes(1e9)
    assert bench.rows._agrees("exact", ours, workload, notes)
    assert notes.differences == {"exact (tiny step)": 0} and not notes.missing
    assert not bench.rows._agrees("tanh", tanh, workload, notes)
    assert 1e-7 < notes.differences["tanh (tiny step)"] < 1e-4
    assert notes.missing[0].startswith("tiny step, batch 4, tanh: its results differ by ")


@pytest.mark.parametrize("dropout", [0, 0.1])  # compared in the race, or before it
def test_only_peers_that_do_the_same_are_compared(
    bench: SimpleNamespace, program: Callable[..., Any], dropout: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(bench.rows, "floor", lambda race, rate: 0.0)  # for tinyattn's own only
    peers = {"same": program("same", "step = lambda: 1.000001"),
             "other": program("other", "step = lambda: 1.0001"),
             "broken": program("broken", "step = lambda: 1 / 0")}  # fmt: skip
    workload = bench.workloads.Race(
        "step", "work", {"dropout": dropout, "batch": 1}, peers,
        program("ours", "step = lambda: 1.0"), time={"same": 2.0, "other": 2.0},
    )  # fmt: skip
    notes, length = bench.rows.Notes(1e9), bench.race.Length(launches=1, rounds=1, turn=1)
    rows = list(bench.rows.compared(workload, length, notes))
    assert [(row.workload, row.peer, row.target) for row in rows] == [("work", "same", "2.00")]
    assert sorted(notes.missing) == ["work, broken: ZeroDivisionError: division by zero",
                                     "work, other: its results differ by 1e-04"]  # fmt: skip
    assert {"ours", "same"} <= set(notes.versions)
    assert "same (work) 1e-06; other (work) 1e-04" in str(notes)


def test_busy_processes_end_with_their_context(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command))
        return started[-1]

    monkeypatch.setattr(bench.busy, "subprocess", SimpleNamespace(Popen=start))
    with pytest.raises(ZeroDivisionError), bench.busy.busy_processes(2):
        assert [process.poll() for process in started] == [None, None]
        _ = 1 / 0
    assert len(started) == 2 and None not in [process.poll() for process in started]


def test_busy_processes_end_when_the_comparison_is_killed(bench: SimpleNamespace) -> None:
    """`run` returns when no process has the pipe open any more."""
    killed = "with busy.busy_processes(2): os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run(
        [sys.executable, "-c", f"import busy, os, signal\n{killed}"],
        cwd=bench.folder, stdout=subprocess.PIPE, timeout=20,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
