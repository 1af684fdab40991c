"""One worker needs no thread: so the package runs where none can start, as in a browser."""

import threading

import numpy as np
import pytest

from tests.training.test_step import gradient, ragged, tiny
from tinyattn.measure.profile import profile_step
from tinyattn.models.generate import continuations
from tinyattn.parallel import threads
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training.optimizer_table import make_optimizers


@pytest.fixture(autouse=True)
def no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_a_step_has_the_bits_of_one_whose_worker_is_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = gradient(tiny(0.1), ragged(), workers=1)
    monkeypatch.undo()
    monkeypatch.setattr(threads, "AtOnce", lambda: threads.ThreadPoolExecutor(1))
    assert (gradient(tiny(0.1), ragged(), workers=1) == here).all()


def test_generation_and_the_profile() -> None:
    model, text = tiny(), np.array([1, 2, 3])
    assert len(list(continuations(model, [text, text], 4, workers=1))) == 2
    optimizers = make_optimizers(model, "adamw")
    found = profile_step(language_model_loss(model), optimizers, ragged(), steps=1, workers=1)
    assert found.workers == 1


def test_results_come_one_by_one() -> None:
    seen: list[int] = []
    for result in threads.side_by_side(np, lambda i: seen.append(i) or i, range(3), workers=1):
        assert seen == [*range(result + 1)]


def test_an_error_is_that_of_the_task() -> None:
    with pytest.raises(ZeroDivisionError), threads.executor(1) as executor:
        executor.submit(lambda: 1 / 0).result()
    with pytest.raises(RuntimeError, match="start new thread"):
        threads.executor(1, apart=True).submit(int)
