"""The arithmetic of compare.py, and what all contenders share."""

import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel.threads import available_cores
from tinyattn.tensor import Tensor
from tinyattn.training.optimizers import AdamW


def test_median_and_quartiles(bench: SimpleNamespace) -> None:
    found = bench.ratios.spread([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)
    assert str(bench.ratios.spread([0.5])) == "0.50 [0.50 0.50]"


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=9), st.data())
def test_load_on_both_sides_changes_no_ratio(
    bench: SimpleNamespace, ours: list[float], data: st.DataObject
) -> None:
    """A round in which the whole machine is slower gives the same ratio."""
    size = len(ours)
    theirs = data.draw(st.lists(st.floats(0.01, 100), min_size=size, max_size=size))
    load = data.draw(st.lists(st.floats(1, 10), min_size=size, max_size=size))
    quiet = bench.ratios.ratios(ours, theirs)
    slowed = bench.ratios.ratios(np.multiply(ours, load), np.multiply(theirs, load))
    np.testing.assert_allclose(quiet, slowed)
    found = bench.ratios.spread(quiet)
    assert min(quiet) <= found.low <= found.median <= found.high <= max(quiet)


def test_a_row_shows_whether_its_target_is_met(bench: SimpleNamespace) -> None:
    Row, Spread = bench.table.Row, bench.ratios.Spread
    row = {bound: Row("w", "time", "p", "1 ms", "2 ms", Spread(0.5, 0.4, 0.6), bound)
           for bound in (0.49, 0.5, None)}  # fmt: skip
    assert [row[bound].met for bound in row] == ["no", "yes", ""]
    assert [row[bound].target for bound in row] == ["0.49", "0.50", ""]
    above = Row("w", "memory", "p", "51 MB", limit=(51.0, 50, "MB"))
    assert (above.target, above.met) == ("50 MB", "no")
    lines = [*bench.table.head().splitlines(), str(row[0.5]), str(above)]
    assert len({line.count("|") for line in lines}) == 1
    assert "| 0.50 [0.40 0.60] " in lines[2]


def results_of(bench: SimpleNamespace, **seconds: list[float]) -> dict[str, object]:
    return {label.replace("_", " "): bench.race.Result(seconds=values, cpu=values, memory=values)
            for label, values in seconds.items()}  # fmt: skip


def test_the_fastest_peer_gets_the_target(bench: SimpleNamespace) -> None:
    workload = bench.workloads.Race("busy", "work", {}, {}, fastest=0.5, memory={"slow": 0.9})
    results = results_of(bench, tinyattn=[1.0, 2.0], slow=[9.0, 9.0], fast=[4.0, 4.0])
    slow, fast, memory = bench.rows.rows(workload, results, 0.75)
    assert (slow.peer, slow.target, fast.peer, fast.target) == ("slow", "", "fast", "0.50")
    assert fast.met == "yes" and str(fast.ratio) == "0.38 [0.31 0.44]"
    assert (memory.measure, memory.target, memory.met) == ("memory", "0.90", "yes")
    assert (slow.floor, fast.floor, memory.floor) == (0.5, 0.5, None)
    assert str(slow).endswith("|     | 50%   |") and str(memory).endswith("| yes |       |")


def test_the_rate_is_that_of_the_profile(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On all cores, each with one thread of BLAS."""

    def product_rate(workers: int, rounds: int) -> float:
        assert (workers, rounds) == (available_cores(), bench.floor.ROUNDS)
        assert all(info["num_threads"] == 1 for info in threadpool_info())
        return 8.0

    monkeypatch.setattr(bench.floor, "product_rate", product_rate)
    assert bench.floor.thread_rate() == 8


def test_the_floor_counts_what_the_result_needs(bench: SimpleNamespace) -> None:
    """By the formulas of derivations/25_scaling.md; two threads need half of the time."""
    found = {race.title: race for race in bench.workloads.races(2) if race.part != "others"}
    V, C, n, T = 256, 64, 2, 64
    step = found["tiny step, batch 32, dropout 0.1"]
    expected = 32 * T * 3 * (12 * n * C**2 + V * C + n * C * (T + 1))
    assert bench.floor.needed(step) == expected
    assert bench.floor.floor(step, 1e9) == expected / 2e9
    T, C = 256, 8 * 32
    attention = found["attention, T = 256"]
    assert bench.floor.floor(attention, 1.0) == 3 * C * T * (T + 1)
    C, n, prompt, count = 256, 4, 8, 120
    a_token, a_pair = (
        12 * n * C**2,
        2 * n * C,
    )  # forward only; the head is applied once per generated token
    length = prompt + count - 1
    assert bench.floor.needed(found["generate 120 tokens, batch 1"]) == pytest.approx(
        a_token * length + count * V * C + a_pair * length * (length + 1) / 2, rel=0.01
    )
    one = found["generate 120 tokens, batch 1"]  # one sequence, so one thread
    assert bench.floor.floor(one, 1.0) == bench.floor.needed(one)


def model_of(bench: SimpleNamespace, size: dict[str, int]) -> GPT:
    model = GPT(GPTConfig(**size, dropout=0.0, gelu="tanh"))
    model.load_state(bench.common.initial_values(size))
    return model


def test_the_plain_gpt_is_the_same_model(bench: SimpleNamespace) -> None:
    """Names, shapes and loss, for libraries that look like NumPy."""
    size = bench.common.SIZES["tiny"]
    model = model_of(bench, size)
    assert dict(bench.common.shapes(size)) == {n: p.shape for n, p in model.named_parameters()}
    ids, targets = bench.common.batch(size, 3)
    library = bench.plain_gpt.Library(np, 0.0, "tanh")
    examples = bench.plain_gpt.flat_examples(ids, targets)
    loss = bench.plain_gpt.loss(library, bench.common.initial_values(size), size, examples)
    log_p = model(ids).data.astype(np.float64).reshape(-1, size["vocabulary"])
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    flat = targets.reshape(-1)
    expected = -log_p[np.arange(len(flat)), flat][flat != 0].mean()
    assert loss.dtype == np.float32
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_the_plain_adamw_is_the_same_optimizer(bench: SimpleNamespace) -> None:
    size, adam = bench.common.SIZES["tiny"], bench.common.ADAM
    model = model_of(bench, size)
    beta1, beta2 = adam["betas"]
    optimizer = AdamW(model.named_parameters(), beta1=beta1, beta2=beta2, eps=adam["eps"],
                      weight_decay=adam["weight_decay"])  # fmt: skip
    values = bench.common.initial_values(size)
    state = bench.adamw.start(values)
    rng = np.random.default_rng(5)
    for t in (1, 2, 3):
        for name, parameter in model.named_parameters():
            g = rng.standard_normal(parameter.shape, np.float32)
            parameter.grad = Tensor(g).data
            values[name], state[name] = bench.adamw.moved(
                name, values[name], g, state[name], t, np.sqrt
            )
        optimizer.step(adam["learning_rate"])
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(values[name], parameter.data, rtol=1e-5, atol=1e-7)


def test_every_race_can_be_run(bench: SimpleNamespace) -> None:
    """Targets belong to peers, scripts and environments exist, `--only` has every part.

    All races except attention alone, which has one thread, set the number of threads.
    """
    for race in bench.workloads.races(3):
        assert race.part in bench.compare.PARTS
        assert {*race.time, *race.memory} <= set(race.peers)
        assert race.title.startswith("attention") or race.options["threads"] == 3
        for program in (race.ours, *race.peers.values()):
            assert (bench.folder / "contenders" / program.script).exists()
            assert program.peer in {"tinyattn", *bench.peers.PEERS}
        assert race.ours.peer == "tinyattn"


def test_the_import_has_its_limit_also_without_a_peer(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(name: str) -> None:
        raise bench.peers.Unavailable(f"no {name} here")

    monkeypatch.setattr(bench.compare, "interpreter", unavailable)
    monkeypatch.setattr(bench.compare, "import_seconds", lambda *_: 0.2)
    notes = bench.rows.Notes(1e9)
    (row,) = bench.compare.imports(2, notes)
    assert (row.ours, row.peer, row.ratio, row.target, row.met) == (
        "200 ms", "", None, "0.15 s", "no")  # fmt: skip
    assert notes.missing == ["import, torch: no torch here"]

    def broken(module: str, *_: object) -> float:
        if module == "torch":
            raise CalledProcessError(1, "python")
        return 0.1

    monkeypatch.setattr(bench.compare, "interpreter", lambda name: name)
    monkeypatch.setattr(bench.compare, "import_seconds", broken)
    (row,) = bench.compare.imports(2, notes)
    assert row.peer == "" and "returned non-zero exit status 1" in notes.missing[1]

    seconds = {"tinyattn": 0.1, "torch": 0.4}
    monkeypatch.setattr(bench.compare, "interpreter", lambda name: name)
    monkeypatch.setattr(bench.compare, "import_seconds", lambda module, *_: seconds[module])
    (row,) = bench.compare.imports(2, notes)
    assert (row.peer, row.theirs, row.ratio.median, row.met) == ("torch", "400 ms", 0.25, "yes")


def test_what_was_measured_is_printed_and_written_whatever_happens(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    seen = []

    def compared(workload: Any, length: Any, notes: Any) -> Iterator[Any]:
        seen.append((workload.title, length.rounds))
        if workload.title.endswith("512"):
            raise KeyboardInterrupt
        yield bench.table.Row(workload.title, "time", "a peer", "1 ms")

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["compare.py", "--out", str(tmp_path / "table"), *words])
        bench.compare.main()

    monkeypatch.setattr(bench.compare, "compared", compared)
    monkeypatch.setattr(bench.compare, "thread_rate", lambda: 50e9)
    run("--only", "attention", "--title", "T = 2", "--quick")
    assert seen == [("attention, T = 256", 2), ("attention, T = 2048", 2)]
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "table").read_text()
    assert printed.count("| a peer ") == 2 and "cores" in printed.splitlines()[-1]
    assert "\n\nOne thread: 100 GFLOP/s (the best" in printed

    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        run("--only", "attention")
    assert [rounds for _, rounds in seen] == [5, 5, 5]
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "table").read_text() and printed.count("| a peer ") == 2


def test_one_number_for_an_array_depends_on_size_sign_and_order(bench: SimpleNamespace) -> None:
    inputs, summary = bench.attention_inputs.inputs, bench.attention_inputs.summary
    a, *_, probe = inputs(64)
    wrong = (1.001 * a, -a, a[:, ::-1], a[:, :, ::-1], a[..., ::-1], np.roll(a, 1, axis=2))
    (right,) = summary(probe, a)
    assert 0.1 < abs(right) < 10
    assert min(abs(right - found) for found in summary(probe, *wrong)) > 1e-4
    exact = (a.astype(np.float64) * probe).sum() / np.sqrt(a.size)
    assert right == pytest.approx(exact, abs=1e-6)
