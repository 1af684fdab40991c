"""One step: the same for any number of workers, with gradient clipping, and never partial."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinyattn.data import PAD, Batch, pad_rows
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel import shards as module
from tinyattn.parallel.flat import flat_of
from tinyattn.parallel.shards import BatchTooLarge
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.rng import DropoutRNG
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tensor import Tensor, gradients
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import SGD
from tinyattn.training.step import Step as PlainStep


def tiny(dropout: float = 0.0) -> GPT:
    config = GPTConfig(vocabulary=9, context=16, layers=2, heads=2, width=8, dropout=dropout)
    return GPT(config, seed=1)


def ragged(seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    texts = [rng.integers(2, 9, n) for n in [3, 16, 5, 9, 9, 2, 12, 16, 4, 7, 1]]
    return Batch(pad_rows([t[:-1] for t in texts], 15), pad_rows([t[1:] for t in texts], 15))


class Recorder(SGD):
    """An optimizer that records its gradients and changes no parameter."""

    alone = "parameter"

    def move(self, w: Any, g: Any, *rest: Any) -> None:
        self.seen = flat_of(self).grads.copy()


def gradient(
    model: GPT, batch: Batch, *, workers: int = 1, clip: float = 1e9, seed: int = 0, step: int = 0
) -> np.ndarray:
    """The gradient that two optimizers get, concatenated."""
    named = list(model.named_parameters())
    recorders: list[Any] = [Recorder(named[::2]), Recorder(named[1::2])]
    loss = language_model_loss(model)
    with Step(loss, recorders, clip=clip, workers=workers, seed=seed) as take:
        take(batch, step, 0.1)
    return np.concatenate([recorder.seen for recorder in recorders])


@pytest.fixture(params=["one shard", "many shards"])
def sharding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "many shards":
        monkeypatch.setattr(module, "SHARD_TOKENS", 20)
    yield


@pytest.mark.usefixtures("sharding")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("workers", [2, 3, 11, 20])
def test_any_number_of_workers_gives_the_same_gradient(dropout: float, workers: int) -> None:
    """With dropout too: a row has the same dropout mask wherever it is computed."""
    alone = gradient(tiny(dropout), ragged(), workers=1)
    shared = gradient(tiny(dropout), ragged(), workers=workers)
    np.testing.assert_allclose(shared, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("sharding")
def test_the_same_number_of_workers_gives_the_same_bits() -> None:
    first, *others = (gradient(tiny(0.1), ragged(), workers=3) for _ in range(4))
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.usefixtures("sharding")
@pytest.mark.parametrize("slow", ["the first", "the others"])
def test_a_slow_worker_changes_no_bit(slow: str) -> None:
    """Gradients are added in the order of the shards, not in the order of completion."""
    model, batch = tiny(), ragged()
    plain = language_model_loss(model)

    def late(part: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        assert dropout_rng is not None
        if (dropout_rng.first_row == 0) == (slow == "the first"):
            time.sleep(0.02)
        return plain(part, dropout_rng, divisor)

    recorders: list[Any] = [Recorder(list(model.named_parameters()))]
    with Step(late, recorders, clip=1e9, workers=3) as take:
        take(batch, 0, 0.1)
        late_gradient = recorders[0].seen
        take.loss = plain
        take(batch, 0, 0.1)
    np.testing.assert_array_equal(recorders[0].seen, late_gradient)


def test_an_error_in_a_worker_is_raised_and_the_next_step_is_right() -> None:
    model, batch = tiny(), ragged()
    plain = language_model_loss(model)

    def broken(part: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        raise KeyError("lost")

    recorders: list[Any] = [Recorder(list(model.named_parameters()))]
    with Step(broken, recorders, clip=1e9, workers=2) as take:
        with pytest.raises(KeyError, match="lost"):
            take(batch, 0, 0.1)
        take.loss = plain
        take(batch, 0, 0.1)
    alone = gradient(tiny(), batch, workers=2)
    seen = flat_of(recorders[0]).views(recorders[0].seen)
    named = list(model.named_parameters())
    expected = np.concatenate([seen[name].ravel() for name, _ in named[::2] + named[1::2]])
    np.testing.assert_array_equal(alone, expected)


def test_the_gradient_is_that_of_the_whole_batch() -> None:
    model, batch = tiny(), ragged()
    loss = language_model_loss(model)(batch, None, float(batch.trained))
    expected = {id(leaf): g for leaf, g in gradients(loss)}
    named = list(model.named_parameters())
    inorder = [p for _, p in named[::2] + named[1::2]]
    flat = np.concatenate([expected[id(p)].ravel() for p in inorder])
    np.testing.assert_allclose(gradient(model, batch, workers=2), flat, rtol=1e-4, atol=1e-6)


def test_seed_and_step_determine_the_dropout() -> None:
    same = gradient(tiny(0.3), ragged(), seed=1, step=3)
    np.testing.assert_array_equal(gradient(tiny(0.3), ragged(), seed=1, step=3), same)
    assert (gradient(tiny(0.3), ragged(), seed=2, step=3) != same).any()
    assert (gradient(tiny(0.3), ragged(), seed=1, step=4) != same).any()


def test_the_gradient_is_clipped_over_all_optimizers_together() -> None:
    free = gradient(tiny(), ragged())
    norm = float(np.linalg.norm(free))
    for share in (0.1, 0.9):
        clipped = gradient(tiny(), ragged(), clip=share * norm)
        np.testing.assert_allclose(clipped, share * free, rtol=1e-4, atol=1e-8)
    np.testing.assert_array_equal(gradient(tiny(), ragged(), clip=1.01 * norm), free)


def test_a_step_returns_loss_and_norm_from_before_it() -> None:
    model, batch = tiny(), ragged()
    norm = float(np.linalg.norm(gradient(model, batch)))
    loss = language_model_loss(model)
    before = loss(batch, None, float(batch.trained)).item()
    with Step(loss, make_optimizers(model, "adamw"), clip=norm / 3, workers=2) as step:
        result = step(batch, 0, 0.01)
    assert (result.loss, result.norm) == pytest.approx((before, norm), rel=1e-5)
    assert loss(batch, None, float(batch.trained)).item() < before


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("poison", ["loss", "gradient", "endless gradient"])
def test_a_step_that_is_not_finite_is_not_taken(name: str, poison: str) -> None:
    """One shard that is not finite is enough; parameters and optimizer state do not change."""
    model, batch = tiny(), ragged()
    optimizers = make_optimizers(model, name)
    good = language_model_loss(model)

    def bad(part: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        loss = good(part, dropout_rng, divisor)
        if part.inputs.shape[1] < batch.inputs.shape[1]:
            # The second has a finite loss, but the slope of a square root at 0 is infinite.
            # The third has only a gradient of infinity.
            return {
                "loss": lambda: loss * np.nan,
                "gradient": lambda: loss + (0 * loss) ** 0.5,
                "endless gradient": lambda: loss + (loss - loss.item()) * 3e38 * 3e38,
            }[poison]()
        return loss

    def snapshot() -> list[np.ndarray]:
        moments = [a for o in optimizers for pieces in o.state().values() for a in pieces.values()]
        return [a.copy() for a in [*model.state().values(), *moments]]

    with Step(good, optimizers, workers=3) as step:
        step(batch, 0, 0.01)
        before = snapshot()
        step.loss = bad
        with pytest.raises(FloatingPointError, match=r"step 2: the loss is .*, the gradient norm"):
            step(batch, 1, 0.01)
        for now, then in zip(snapshot(), before, strict=True):
            np.testing.assert_array_equal(now, then)
        step.loss = good
        assert np.isfinite(step(batch, 1, 0.01).loss)  # and the next batch can be trained on


def test_a_batch_without_targets_changes_nothing() -> None:
    batch = Batch(ragged().inputs, np.full_like(ragged().targets, PAD))
    np.testing.assert_array_equal(gradient(tiny(), batch, workers=2), 0)


def test_the_error_for_a_batch_that_is_too_large_for_a_gpu_names_one_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loss for at most three sequences replaces the GPU; a step names no option of a command."""
    monkeypatch.setattr(module, "on_gpu", lambda xp: True)
    model, room = tiny(), 3
    known = language_model_loss(model)

    def loss(batch: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        if len(batch.inputs) > room:
            raise MemoryError
        return known(batch, dropout_rng, divisor)

    batch = ragged()
    with Step(loss, make_optimizers(model, "adamw"), workers=1) as take:
        with pytest.raises(BatchTooLarge) as caught:
            take(batch, 0, 0.1)
        assert caught.value.fits == 2
        message = "a batch of 11 sequences is too large for this GPU; one of 2 would fit"
        assert str(caught.value) == message
        room = 0
        with pytest.raises(
            BatchTooLarge, match="not even one sequence of 15 tokens fits"
        ) as caught:
            take(batch, 0, 0.1)
        assert caught.value.fits == 0


BOTH = pytest.mark.parametrize("made", [PlainStep, Step])


@BOTH
@pytest.mark.parametrize("name", ["sgd", "adamw", "muon"])
def test_gradients_of_an_earlier_backward_are_ignored(made: Any, name: str) -> None:
    found = []
    for left in (None, 100.0):
        model = tiny()
        for parameter in model.parameters():
            parameter.grad = None if left is None else np.full(parameter.shape, left, np.float32)
        with made(language_model_loss(model), make_optimizers(model, name)) as take:
            take(ragged(), 0, 0.01)
        assert all(parameter.grad is None for parameter in model.parameters())
        found.append(model.state())
    for key, value in found[0].items():
        np.testing.assert_array_equal(found[1][key], value)


@BOTH
def test_a_step_that_failed_leaves_no_gradient(made: Any) -> None:
    model = tiny()
    good = language_model_loss(model)
    with made(lambda *batch: good(*batch) * np.nan, make_optimizers(model, "adamw")) as take:
        with pytest.raises(FloatingPointError):
            take(ragged(), 0, 0.01)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_two_optimizers_may_alternate_with_the_same_parameters() -> None:
    """Each has its own flat arrays; the parameters move to those of the active optimizer."""
    ends = []
    for made in (Step, PlainStep):
        model = tiny()
        named = list(model.named_parameters())
        loss, pair = language_model_loss(model), [SGD(named), SGD(named, momentum=0.5)]
        with made(loss, pair[:1]) as one, made(loss, pair[1:]) as other:
            for step in range(6):
                (one, other)[step % 2](ragged(), step, 0.1)
        ends.append(np.concatenate([p.data.ravel() for _, p in named]))
    np.testing.assert_allclose(*ends, rtol=0, atol=1e-5)


def test_a_leaf_without_an_optimizer_does_not_change() -> None:
    ends = []
    for made in (Step, PlainStep):
        model = tiny()
        named = list(model.named_parameters())
        with made(language_model_loss(model), [SGD(named[::2])]) as take:
            take(ragged(), 0, 0.1)
        ends.append(model.state())
    before = tiny().state()
    for number, (name, _) in enumerate(named):
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=0, atol=1e-6)
        assert (ends[0][name] == before[name]).all() == bool(number % 2), name


@pytest.mark.parametrize("workers", [0, -1])
def test_a_step_has_at_least_one_worker(workers: int) -> None:
    model = tiny()
    with pytest.raises(ValueError, match="workers must be a whole number above 0"):
        Step(language_model_loss(model), make_optimizers(model, "sgd"), workers=workers)
