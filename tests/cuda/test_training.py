"""A step on a GPU, where reading a value waits: errors come late, but nothing is lost."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu

from tinyattn.backend import asarray, asnumpy, get_device
from tinyattn.data import Batch
from tinyattn.kernels.cuda.precision import product
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel import mpi
from tinyattn.parallel.flat import flat_of
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.rng import DropoutRNG
from tinyattn.tasks.examples import TextExamples
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tensor import Tensor
from tinyattn.training import metrics
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.fit import Fit
from tinyattn.training.keep import TrainingFailed
from tinyattn.training.metrics import read_metrics
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.settings import (
    MATMUL_PRECISIONS,
    SettingError,
    TrainSettings,
    matmul_precision,
)

pytestmark = needs_gpu


def tiny(device: str = "cuda", context: int = 16) -> GPT:
    config = GPTConfig(vocabulary=9, context=context, layers=2, heads=2, width=8, dropout=0.1)
    return GPT(config, seed=1, device=device)


def batch(rows: int = 6, T: int = 16) -> Batch:
    ids = np.random.default_rng(0).integers(2, 9, (rows, T + 1))
    return Batch(ids[:, :-1], ids[:, 1:])


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_many_steps_are_those_of_the_cpu(name: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        model = tiny(device)
        with Step(language_model_loss(model), make_optimizers(model, name), workers=1) as take:
            found.append([take(batch(), number, 0.01).loss for number in range(20)])
    assert found[1] == pytest.approx(found[0], abs=2e-4)
    assert found[0][-1] < found[0][0] - 0.1


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_after_a_step_that_is_not_finite_no_step_is_taken(name: str, poison: str) -> None:
    model = tiny()
    optimizers, good = make_optimizers(model, name), language_model_loss(model)

    def bad(part: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        loss = good(part, dropout_rng, divisor)
        return loss * np.nan if poison == "loss" else loss + (0 * loss) ** 0.5

    def snapshot() -> list[np.ndarray]:
        moments = [a for o in optimizers for pieces in o.state().values() for a in pieces.values()]
        return [asnumpy(a).copy() for a in [*model.state().values(), *moments]]

    with Step(good, optimizers, workers=1) as take:
        take(batch(), 0, 0.01).check()
        before = snapshot()
        take.loss = bad
        take(batch(), 1, 0.01)  # nothing waits, so nothing is known
        take.loss = good
        later = take(batch(), 2, 0.01)
    with pytest.raises(FloatingPointError, match=r"step 3: the loss is \d\.\d+, .* norm nan"):
        later.check()
    for now, then in zip(snapshot(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def run(folder: Path, steps: int, rate: float = 0.01, **more: Any) -> None:
    settings = TrainSettings(steps=steps, batch=4, learning_rate=rate, warmup=2, **more)
    model = tiny()
    text = np.random.default_rng(0).integers(2, 9, 500)
    data = TextExamples(text, 16, batch=4, seed=0)
    Fit(settings, folder, {}, workers=1).run(model, language_model_loss(model), data)


def test_a_run_that_fails_raises_an_error_and_saves_no_checkpoint_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although this is known only when the log reads the loss, or at the end."""
    monkeypatch.setattr(metrics, "LOG_LINES", 2)
    with pytest.raises(TrainingFailed, match="norm nan; no checkpoint yet; try a smaller"):
        run(tmp_path, 8, rate=1e30, optimizer="adamw")
    assert not (tmp_path / CHECKPOINT).exists()


def test_the_log_is_the_same_whether_it_is_written_often_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = []
    for lines, name in ((400, "often"), (2, "seldom")):
        monkeypatch.setattr(metrics, "LOG_LINES", lines)
        monkeypatch.setattr(metrics, "LOG_SECONDS", 1e9)
        (tmp_path / name).mkdir()
        run(tmp_path / name, 8)
        entries = read_metrics(tmp_path / name / "metrics.jsonl")
        losses.append({entry["step"]: entry["loss"] for entry in entries})
    assert [*losses[0]] == [*range(1, 9)] and {4, 8} <= {*losses[1]} < {*losses[0]}
    assert all(losses[0][step] == loss for step, loss in losses[1].items())


@pytest.fixture
def pool() -> Iterator[Any]:
    """CuPy's memory pool, with a limit until the end of the test."""
    pool = get_device("cuda").xp.get_default_memory_pool()
    pool.free_all_blocks()
    yield pool
    pool.set_limit(size=0)
    pool.free_all_blocks()


def test_the_error_for_a_batch_that_is_too_large_names_one_that_fits(pool: Any) -> None:
    model = tiny(context=64)
    with Step(language_model_loss(model), make_optimizers(model, "adamw"), workers=1) as take:
        take(batch(4, 64), 0, 0.01)
        pool.free_all_blocks()
        pool.set_limit(size=pool.used_bytes() + (6 << 20))
        with pytest.raises(MemoryError) as caught:
            take(batch(256, 64), 1, 0.01)
        found = re.fullmatch(
            r"a batch of 256 sequences is too large for this GPU; one of (\d+) would fit",
            str(caught.value),
        )
        assert found
        del caught
        pool.free_all_blocks()
        take(batch(int(found[1]), 64), 1, 0.01).check()

        def greedy(part: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
            raise MemoryError

        take.loss = greedy
        with pytest.raises(MemoryError, match="not even one sequence of 64 tokens fits this GPU"):
            take(batch(8, 64), 2, 0.01)


@pytest.mark.parametrize(("how", "error"), [("float32", 3e-7), ("tf32", 4e-4), ("bfloat16", 4e-3)])
def test_matrix_products_have_the_documented_accuracy(how: str, error: float) -> None:
    """Relative to the size of the result, in the mean square; also not much more accurate."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 96, 96)).astype(np.float32)
    xp, exact = get_device("cuda").xp, a.astype(np.float64) @ b
    with matmul_precision(xp, how):
        found = asnumpy(product(xp, asarray(a, device="cuda"), asarray(b, device="cuda")))
    assert found.dtype == np.float32
    off = np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean())
    assert off < error and (how == "float32" or off > error / 4)
    again = asnumpy(product(xp, asarray(a, device="cuda"), asarray(b, device="cuda")))
    assert np.abs(again - exact).max() < 1e-4  # and outside it is as before


@pytest.mark.parametrize("how", MATMUL_PRECISIONS)
def test_a_run_learns_with_every_matmul_precision(tmp_path: Path, how: str) -> None:
    run(tmp_path, 12, matmul_precision=how)
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "metrics.jsonl")]
    assert losses[-1] < losses[0]


def test_devices_without_such_products_refuse_them(tmp_path: Path) -> None:
    model = tiny("cpu")
    data = TextExamples(np.arange(2, 9).repeat(50), 16, batch=4, seed=0)
    fit = Fit(TrainSettings(steps=1, matmul_precision="tf32"), tmp_path, {})
    with pytest.raises(ValueError, match="matmul_precision 'tf32' needs a GPU: take device 'cuda'"):
        fit.run(model, language_model_loss(model), data)
    with pytest.raises(SettingError, match=r"matmul_precision must be one of .* got 'fp8'"):
        TrainSettings(matmul_precision="fp8")
    with pytest.raises(ValueError, match="needs a GPU"), matmul_precision(np, "bfloat16"):
        pass


def test_gpus_sum_their_arrays_by_themselves() -> None:
    """With a communicator in which the other rank has the same array each time."""
    summed = []

    class Twice(mpi.Ranks):
        size = 2

        def add_up(self, array: Any) -> None:
            assert not isinstance(array, np.ndarray)
            summed.append(array.size)
            array *= 2

    model = tiny()
    loss, optimizers = language_model_loss(model), make_optimizers(model, "muon")
    before = loss(batch(), None, float(batch().trained)).item()
    with Step(loss, optimizers, workers=1, ranks=Twice()) as take:
        result = take(batch(), 0, 0.0)
    assert summed == [1, *(flat_of(optimizer).grads.size for optimizer in optimizers)]
    # This rank has half of the rows, so twice its loss is about the loss of all.
    assert result.loss == pytest.approx(before, rel=0.1)


def test_each_rank_uses_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Communicator:
        def all_reduce(self, source: Any, target: Any, op: str) -> None:
            asked.append((source is target, op))

    monkeypatch.setattr(mpi.MPIRanks, "__init__", lambda self: setattr(self, "size", 4))
    monkeypatch.setattr(mpi, "connect_gpus", lambda rank, size: Communicator())
    for visible, place, own in [("", "1", "1"), ("4,6", "1", "6"), ("4,6", "2", "4")]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setenv("MPI_LOCALRANKID", place)
        some = mpi.GPURanks()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == own
    some.add_up(asarray(np.zeros(2), device="cuda"))
    assert asked == [(True, "sum")]
