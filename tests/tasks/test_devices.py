"""The whole task on every device: the same losses, and the same answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyattn.data import World
from tinyattn.tasks.evaluation import answer
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import load_run
from tinyattn.training.metrics import METRICS, read_metrics

ROTARY = {"model__layers": 2}
A5 = {"pretrain__optimizer": "adamw", "finetune__optimizer": "adamw", "model__gelu": "exact",
      "model__positions": "learned"}  # fmt: skip


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(folder / METRICS)]


def whole_task(
    people: World, recipe: Recipe, folder: Path, device: str
) -> tuple[list[float], list[str]]:
    """Pretrain with questions, finetune, answer: every loss, and every answer."""
    first, second = (RunOptions(folder / name, device=device) for name in ("first", "second"))
    read = pretrain(people.corpus, recipe, first, questions=people.train)
    assert read.model.device == device
    finetune(people.train, recipe, second, start=read)
    questions = [question for question, _ in people.dev]
    answers = answer(load_run(second.folder, device=device), questions)
    return losses(first.folder) + losses(second.folder), answers


@pytest.mark.parametrize("more", [ROTARY, A5], ids=["rotary, muon", "a5"])
def test_every_device_has_the_same_losses_and_answers(
    people: World, small: Callable[..., Recipe], tmp_path: Path, device: str, more: dict[str, Any]
) -> None:
    recipe = small(pretrain__steps=6, **more)
    here = whole_task(people, recipe, tmp_path / "cpu", "cpu")
    there = whole_task(people, recipe, tmp_path / device, device)
    assert len(here[0]) == 10 and there[0] == pytest.approx(here[0], abs=1e-5)
    assert there[1] == here[1]
    moved = load_run(tmp_path / device / "second")  # a run can be resumed on any device
    assert answer(moved, [question for question, _ in people.dev]) == here[1]
