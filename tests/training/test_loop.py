"""The loop: a run that was stopped anywhere and resumed ends with the same bits."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tinyattn import formulas
from tinyattn.data import Corruption
from tinyattn.models import GPT, GPTConfig
from tinyattn.services import SERVICES
from tinyattn.tasks.examples import DocumentExamples, TextExamples
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training import OPTIMIZERS, Optimizer, checkpoint, keep
from tinyattn.training.checkpoint import CHECKPOINT, Checkpoint, CheckpointError
from tinyattn.training.fit import Fit
from tinyattn.training.keep import TrainingFailed
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.settings import TrainSettings
from tinyattn.training.signals import STOPS, Interrupted
from tinyattn.workers import NoThreads

MODEL = GPTConfig(vocabulary=9, context=16, layers=1, heads=2, width=8, dropout=0.1)
SETTINGS = TrainSettings(epochs=3, batch=4, optimizer="adamw", learning_rate=0.01, warmup=2)
PER_EPOCH = 4


def fit(
    folder: Path, settings: TrainSettings = SETTINGS, *, resume: bool = False,
    on_step: Callable[[dict[str, Any]], None] = lambda entry: None, **more: Any,
) -> Checkpoint:  # fmt: skip
    """Train a tiny model on fifteen short documents, in four batches per epoch."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(2, 9, n) for n in rng.integers(3, 15, 15)]
    data = DocumentExamples(documents, Corruption(longest=15), mask=1, batch=settings.batch,
                        length=16, seed=5, shuffle=settings.shuffle)  # fmt: skip
    assert data.batches_per_epoch == PER_EPOCH
    model = GPT(MODEL, seed=5)
    more = {"workers": 2, **more}
    run = Fit(settings, folder, {}, seed=5, on_step=on_step, **more)
    saved = checkpoint.load(folder / CHECKPOINT) if resume else None
    run.run(model, language_model_loss(model), data, saved)
    return checkpoint.load(folder / CHECKPOINT)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The log, without times."""
    entries = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    timed = {"seconds", "tokens_per_second"}
    return [{k: v for k, v in entry.items() if k not in timed} for entry in entries]


def test_a_resumed_run_continues_counting_its_seconds(tmp_path: Path) -> None:
    def slow(entry: dict[str, Any]) -> None:
        time.sleep(0.1)
        press_ctrl_c_after(5)(entry)

    with pytest.raises(Interrupted):
        fit(tmp_path, on_step=slow)
    fit(tmp_path, resume=True)
    lines = (tmp_path / METRICS).read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    assert seconds == sorted(seconds) and seconds[-1] > 0.4


def send_after(step: int, number: int) -> Callable[[dict[str, Any]], None]:
    def on_step(entry: dict[str, Any]) -> None:
        if entry["step"] == step:
            os.kill(os.getpid(), number)

    return on_step


def press_ctrl_c_after(step: int) -> Callable[[dict[str, Any]], None]:
    return send_after(step, signal.SIGINT)


def assert_same_bits(a: Checkpoint, b: Checkpoint) -> None:
    assert a.about == b.about and a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("stops", [(6,), (PER_EPOCH,), (1, 3, 11)], ids=str)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, optimizer: str, shuffle: bool, stops: tuple[int, ...]
) -> None:
    """Parameters, optimizer state and metrics, although dropout and the spans are random."""
    settings = replace(SETTINGS, optimizer=optimizer, shuffle=shuffle)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    for number, stop in enumerate(stops):
        with pytest.raises(Interrupted, match=f"stopped after step {stop} of 12"):
            fit(parts, settings, resume=number > 0, on_step=press_ctrl_c_after(stop))
    assert_same_bits(fit(parts, settings, resume=True), fit(whole, settings))
    assert metrics(parts) == metrics(whole)
    assert [entry["step"] for entry in metrics(whole)] == list(range(1, 13))


def test_after_a_crash_a_run_resumes_from_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that were logged after the checkpoint are done and logged again."""
    monkeypatch.setattr(keep, "SAVE_SECONDS", 0)

    def crash(entry: dict[str, Any]) -> None:
        if entry["step"] == 6:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(tmp_path, on_step=crash)
    assert checkpoint.load(tmp_path / CHECKPOINT).about["step"] == 5
    with open(tmp_path / METRICS, "a") as file:
        file.write('{"step": 7, "lo')  # an incomplete line
    whole = tmp_path / "whole"
    whole.mkdir()
    assert_same_bits(fit(tmp_path, resume=True), fit(whole))
    assert metrics(tmp_path) == metrics(whole)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    finished = fit(tmp_path)
    assert_same_bits(fit(tmp_path, resume=True), finished)
    assert len(metrics(tmp_path)) == 12


@pytest.mark.parametrize(
    "damage",
    [b"", b'{"step": 5, "lo', b"\xff\xfe", b"null", b"[]", b"7", b"{}", b"[" * 99999,
     b'{"step": 5}', {"step": "5"}, {"step": 5.0}, {"step": True}, {"step": 4}, {"loss": None},
     {"loss": np.nan}, {"loss": np.inf}, {"loss": 10**400}, {"norm": [1]}, {"seconds": "7"},
     {"validation": "low"}],
    ids=lambda damage: str(damage)[:20],
)  # fmt: skip
def test_the_damaged_end_of_a_log_is_removed_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes | dict[str, Any]
) -> None:
    """From its first damaged line on, here the fifth, although valid lines follow."""
    with pytest.raises(Interrupted):
        fit(tmp_path, on_step=press_ctrl_c_after(5))
    log, whole = tmp_path / METRICS, tmp_path / "whole"
    lines = log.read_bytes().splitlines()
    if isinstance(damage, dict):
        damage = json.dumps({**json.loads(lines[4]), **damage}).encode()
    log.write_bytes(b"\n".join([*lines[:4], damage, *lines, b""]))
    note = f"note: {log}: line 5 is not a log entry; "
    note += "this line and all lines after it are left out\n"
    assert read_metrics(log) == [json.loads(line) for line in lines[:4]]
    assert capsys.readouterr().err == note
    resumed = fit(tmp_path, resume=True)
    assert capsys.readouterr().err == note
    whole.mkdir()
    assert_same_bits(resumed, fit(whole))
    assert metrics(tmp_path) == [entry for entry in metrics(whole) if entry["step"] != 5]
    assert capsys.readouterr().err == ""


def test_the_state_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    with pytest.raises(CheckpointError, match="optimizer state does not fit these settings"):
        fit(tmp_path, replace(SETTINGS, optimizer="muon"), resume=True)


FIRST = "optimizer.0.first.layers.0.norm_1.gain"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (FIRST, lambda a: None, "NAME is missing"),
        (FIRST, lambda a: a.astype(np.float64), r"NAME .*float32 \(8,\), is float64 \(8,\)"),
        (FIRST, lambda a: a.astype(np.int32), r"NAME should be float32 \(8,\), is int32 \(8,\)"),
        (FIRST, lambda a: a[:-1], r"NAME should be float32 \(8,\), is float32 \(7,\)"),
        (FIRST, lambda a: a[None], r"NAME should be float32 \(8,\), is float32 \(1, 8\)"),
        (FIRST, lambda a: a + np.inf, "NAME is not finite"),
        (FIRST.replace("first", "second"), lambda a: a * np.nan, "NAME is not finite"),
        (FIRST.replace("0.first", "1.first"), lambda a: np.zeros(8), "NAME belongs to no opt.*"),
        (FIRST.replace("first", "third"), lambda a: np.zeros(8), "NAME belongs to no optimizer"),
        ("more", lambda a: np.zeros(8), "NAME belongs to no optimizer"),
    ],
)  # fmt: skip
def test_a_refused_resume_changes_nothing(
    tmp_path: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    """Not even by rounding to another dtype."""
    config = tmp_path / "config.toml"
    fit(tmp_path, replace(SETTINGS, steps=5), beside={config: "before"})
    saved = checkpoint.load(tmp_path / CHECKPOINT)
    array = change(saved.arrays.pop(name, None))
    if array is not None:
        saved.arrays[name] = array
    checkpoint.save(tmp_path / CHECKPOINT, saved.arrays, saved.about)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{CHECKPOINT}: .*{message.replace('NAME', name)}$"):
        fit(tmp_path, resume=True, beside={config: "after"})
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_matmul_precision_that_the_device_lacks_is_refused_before_writing(
    tmp_path: Path,
) -> None:
    low = replace(SETTINGS, matmul_precision="tf32")
    beside = {tmp_path / "config.toml": "new"}
    with pytest.raises(ValueError, match="'tf32' needs a GPU"):
        fit(tmp_path, low, beside=beside)
    assert contents(tmp_path) == {}
    with pytest.raises(Interrupted):
        fit(tmp_path, on_step=press_ctrl_c_after(5))
    before = contents(tmp_path)
    for resume in (False, True):
        with pytest.raises(ValueError, match="'tf32' needs a GPU"):
            fit(tmp_path, low, resume=resume, beside=beside)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("there", [CHECKPOINT, METRICS, "config.toml", "curves.png"])
def test_the_old_run_stays_complete_until_the_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """Then all its files are replaced or removed at once."""
    (tmp_path / there).write_text("somebody's")
    before, seen = contents(tmp_path), []
    beside = {tmp_path / "config.toml": "after", tmp_path / "curves.png": None}
    wild = replace(SETTINGS, learning_rate=1e30, schedule="constant", warmup=0)
    kept = r"no checkpoint yet; the earlier files in .* are unchanged;"
    with pytest.raises(TrainingFailed, match=kept):
        fit(tmp_path, wild, beside=beside)
    assert contents(tmp_path) == before

    def look(entry: dict[str, Any]) -> None:
        seen.append(contents(tmp_path))

    monkeypatch.setattr(keep, "SAVE_SECONDS", 0)  # a checkpoint after every step
    fit(tmp_path, replace(SETTINGS, steps=3), on_step=look, beside=beside)
    assert seen[0] == before
    assert [files[METRICS].count(b"\n") for files in seen[1:]] == [2, 3]  # one line again
    for files in (seen[1], seen[2], contents(tmp_path)):
        assert files.keys() == {CHECKPOINT, METRICS, "config.toml"}
        assert files["config.toml"] == b"after" and files[CHECKPOINT][:8] != b"somebody"
    assert [entry["step"] for entry in metrics(tmp_path)] == [1, 2, 3]


def test_a_folder_that_cannot_be_written_is_found_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "curves.png").mkdir()
    with pytest.raises(CheckpointError, match=r"curves\.png: cannot be written: Is a directory"):
        fit(tmp_path, beside={tmp_path / "curves.png": None}, on_step=lambda entry: 1 / 0)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_that_diverges_stops_and_keeps_the_last_finite_checkpoint(
    tmp_path: Path, optimizer: str
) -> None:
    settings = replace(SETTINGS, optimizer=optimizer, steps=3)
    fit(tmp_path, settings)
    before = (tmp_path / CHECKPOINT).read_bytes()
    wild = replace(settings, steps=9, learning_rate=1e30, schedule="constant", warmup=0)
    pattern = (
        r"step \d: the loss is .*last good checkpoint is .*try a smaller learning_rate than 1e\+30"
    )
    with pytest.raises(TrainingFailed, match=pattern):
        fit(tmp_path, wild, resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    (tmp_path / CHECKPOINT).unlink()
    with pytest.raises(TrainingFailed, match="no checkpoint yet"):
        fit(tmp_path, wild)


def test_the_handler_of_ctrl_c_is_restored(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    fit(tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    (tmp_path / CHECKPOINT).unlink()

    def press_twice(entry: dict[str, Any]) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):  # the second one does not wait for the step
        fit(tmp_path, on_step=press_twice)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("step", [5, 12])
@pytest.mark.parametrize("number", STOPS)
def test_a_signal_to_stop_keeps_a_checkpoint(tmp_path: Path, number: int, step: int) -> None:
    """Also in the last step; the result names the signal."""
    before = [signal.getsignal(n) for n in STOPS]
    name = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    with pytest.raises(Interrupted, match=f"^stopped{name} after step {step} of 12$") as caught:
        fit(tmp_path, on_step=send_after(step, number))
    assert caught.value.number == number
    assert checkpoint.load(tmp_path / CHECKPOINT).about["step"] == step
    assert [signal.getsignal(n) for n in STOPS] == before


def test_a_closed_terminal_may_send_its_signal_twice(tmp_path: Path) -> None:
    def close(entry: dict[str, Any]) -> None:
        for number in [n for n in STOPS if n != signal.SIGINT] * 2:
            signal.raise_signal(number)

    with pytest.raises(Interrupted) as caught:
        fit(tmp_path, on_step=close)
    assert caught.value.number == signal.SIGTERM


@pytest.fixture
def handlers() -> Iterator[None]:
    """The signal handlers of this process, restored after the test."""
    before = {number: signal.getsignal(number) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.usefixtures("handlers")
def test_a_signal_with_another_handler_is_not_changed(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ignored signal, one with a handler of the program, one with a handler not from Python."""
    got: list[int] = []

    def own(number: int, frame: Any) -> None:
        got.append(number)

    for handler in (signal.SIG_IGN, own):
        signal.signal(number, handler)
        fit(tmp_path, on_step=send_after(5, number))
        assert signal.getsignal(number) is handler
    assert got == [number]
    changed: list[int] = []
    known = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda n: None if n == number else known(n))
    monkeypatch.setattr(signal, "signal", lambda n, handler: changed.append(n))
    fit(tmp_path)
    assert changed and number not in changed


@pytest.mark.usefixtures("handlers")
def test_a_handler_that_is_set_during_the_run_stays(tmp_path: Path) -> None:
    def own(number: int, frame: Any) -> None:
        """Does nothing."""

    def take_over(entry: dict[str, Any]) -> None:
        signal.signal(signal.SIGTERM, own)

    fit(tmp_path, on_step=take_over)
    assert signal.getsignal(signal.SIGTERM) is own


def test_a_run_in_a_thread_changes_no_signal_handler(tmp_path: Path) -> None:
    during: list[Any] = []

    def look(entry: dict[str, Any]) -> None:
        during.append([signal.getsignal(number) for number in STOPS])

    before = [signal.getsignal(number) for number in STOPS]
    thread = threading.Thread(target=fit, args=(tmp_path,), kwargs={"on_step": look})
    thread.start()
    thread.join()
    assert during == [before] * 12 and (tmp_path / CHECKPOINT).exists()


def test_learning_rates_and_epochs_are_logged(tmp_path: Path) -> None:
    schedule = SETTINGS.make_schedule(12, 0)
    fit(tmp_path)
    assert [entry["learning_rate"] for entry in metrics(tmp_path)] == [
        schedule(s) for s in range(12)
    ]
    assert [entry["epoch"] for entry in metrics(tmp_path)] == [1] * 4 + [2] * 4 + [3] * 4


@contextmanager
def plain_step() -> Iterator[None]:
    """A context in which a run uses the step of the book, with formulas."""
    with mock.patch.dict(SERVICES), formulas():
        del SERVICES["step", "cpu"]
        yield


def test_a_users_optimizer_is_a_class_and_a_table_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Settings, runs, checkpoints and steps of several threads then know it."""

    def sign(xp, w, g, m, *, t, lr, decay, momentum):  # type: ignore[no-untyped-def]
        m[...] = momentum * m + (1 - momentum) * g
        w -= lr * (decay * w + xp.sign(m))

    class Sign(Optimizer):
        rule, moments, hyperparameters = staticmethod(sign), ("average",), {"momentum": 0.9}

    monkeypatch.setitem(OPTIMIZERS, "sign", Sign)
    settings = TrainSettings(optimizer="sign", learning_rate=0.01, steps=6, batch=4, momentum=0.5)
    results = []
    for workers, who in ((1, plain_step()), (2, nullcontext())):
        model = GPT(MODEL, seed=5)
        data = TextExamples(np.arange(1, 9).repeat(20), 16, batch=4, seed=0)
        folder = tmp_path / str(workers)
        folder.mkdir()
        with who:
            entries = Fit(settings, folder, {}, workers=workers).run(
                model, language_model_loss(model), data
            )
        assert entries[-1]["loss"] < entries[0]["loss"]
        saved = checkpoint.load(folder / CHECKPOINT)
        assert "optimizer.0.average.head.weight" in saved.arrays
        results.append(entries[-1]["loss"])
        again = Fit(settings, folder, {}, workers=workers)
        assert again.run(model, language_model_loss(model), data, saved)
    assert results[0] == pytest.approx(results[1], abs=1e-3)


def test_a_plain_step_does_not_share_its_batch(tmp_path: Path) -> None:
    with plain_step(), pytest.raises(NoThreads, match="workers 2: only tinyattn"):
        fit(tmp_path)  # with two workers
    assert contents(tmp_path) == {}


def test_a_plain_step_equals_the_step_of_threads(tmp_path: Path) -> None:
    """Also with dropout; it can resume a run of the other."""
    found = []
    for name, plain in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        with plain_step() if plain else nullcontext():
            with pytest.raises(Interrupted):
                fit(tmp_path / name, on_step=press_ctrl_c_after(5), workers=1)
            found.append(fit(tmp_path / name, resume=True, workers=1))
    for name, array in found[0].arrays.items():
        np.testing.assert_allclose(found[1].arrays[name], array, atol=2e-4, err_msg=name)
    losses = [[entry["loss"] for entry in metrics(tmp_path / name)] for name in "ab"]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4) and len(losses[0]) == 12
