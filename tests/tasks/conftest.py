"""A made-up world of twelve people, and a model trained on it."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import World, make_world
from tinyattn.tasks.evaluation import save_predictions
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.recipe import Recipe, load_recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import PREDICTIONS
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT

SMALL: dict[str, Any] = {
    "model.layers": 1, "model.heads": 2, "model.width": 16, "model.context": 80,
    "model.dropout": 0.1, "data.longest": 72,
    "pretrain.steps": 4, "finetune.steps": 4, "scratch.steps": 4,
}  # fmt: skip


@pytest.fixture(scope="session")
def small() -> Callable[..., Recipe]:
    """A recipe that trains in a second, with changed settings; double underscores are dots."""

    def recipe(**more: Any) -> Recipe:
        overrides = {key.replace("__", "."): value for key, value in more.items()}
        return load_recipe("world", overrides=SMALL | overrides)

    return recipe


@pytest.fixture(scope="session")
def people() -> World:
    return make_world(people=12, places=3, sentences=2, dev=4, test=2)


@pytest.fixture(scope="session")
def pretrained(
    people: World, small: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    return pretrain(people.corpus, small(), RunOptions(tmp_path_factory.mktemp("pretrained")))


@pytest.fixture(scope="session")
def answering(
    people: World, small: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """A model that has learned to answer with a place and MASK, but not always the right place."""
    folder: Path = tmp_path_factory.mktemp("answering")
    recipe = small(scratch__steps=120, scratch__learning_rate=0.02, model__dropout=0.0)
    return finetune(people.train, recipe, RunOptions(folder), text=people.corpus)


@pytest.fixture
def half_right(people: World, answering: Trained, tmp_path: Path) -> Path:
    """A run with right answers for every other held-out person, not for the first."""
    checkpoint.save(tmp_path / CHECKPOINT, answering.checkpoint.arrays, answering.about)
    answers = [place if i % 2 else "nowhere" for i, (_, place) in enumerate(people.dev)]
    save_predictions(tmp_path / PREDICTIONS, answers)
    return tmp_path


@pytest.fixture
def run_benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs a script of benchmarks/ as a command, with these arguments; without, imports it."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))

    def run(name: str, *arguments: Path) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        return runpy.run_path(str(folder / name), run_name="__main__" if arguments else name)

    return run
