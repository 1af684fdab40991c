"""The table of tasks: every task can be trained, saved, resumed and scored."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import treebank

from tinyattn.data import DataError, World
from tinyattn.parsing import TreeExamples, load_parser
from tinyattn.tasks import TASKS, RunOptions, load, pretrain, train
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.task import Task, task_called, task_of
from tinyattn.training import CheckpointError, checkpoint, read_metrics
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS

Files = dict[str, tuple[Path, Path, Path]]


@pytest.fixture(scope="module")
def files(people: World, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A training file, another one, and one for the score; plain texts for other tasks."""
    folder = tmp_path_factory.mktemp("files")

    def saved(name: str, text: str) -> Path:
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    trees = [treebank.as_conllu(treebank.documents(4, seed=seed)) for seed in range(3)]
    pairs = "".join(f"{question}\t{place}\n" for question, place in people.dev)
    corpus, more = saved("corpus", people.corpus), saved("more", people.corpus[::-1])
    return {
        "knowledge": (corpus, more, saved("pairs", pairs)),
        "parse": tuple(saved(f"trees{i}", text) for i, text in enumerate(trees)),  # type: ignore
        "other": (corpus, more, more),
    }


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_trained_saved_resumed_and_scored(
    name: str, files: Files, small: Callable[..., Recipe], tmp_path: Path
) -> None:
    """A resumed run ends with the same bytes as one that was not interrupted."""
    task, (learned, other, unseen) = task_called(name), files.get(name, files["other"])
    assert isinstance(task, Task) and task.name == name
    whole, run = (RunOptions(tmp_path / folder, workers=1) for folder in ("whole", "run"))

    def trained(file: Path, options: RunOptions, **settings: Any) -> Any:
        return train(lambda: task.job(file, small(**settings), options.seed), options)

    first = trained(learned, whole)
    assert first.about["step"] == 4 and task_of(first.about["stage"]) is task
    rates: dict[str, Any] = {"pretrain__schedule": "constant", "pretrain__warmup": 0}
    trained(learned, whole, **rates)
    trained(learned, run, pretrain__steps=2, **rates)
    again = replace(run, resume=True)
    with pytest.raises(CheckpointError, match=r"another pretrain\.batch \(\d+, not 3\)"):
        trained(learned, again, pretrain__batch=3)
    with pytest.raises(CheckpointError, match="to learn from"):
        trained(other, again)
    trained(learned, again, **rates)
    arrays = [load(options.folder).checkpoint.arrays for options in (whole, run)]
    assert all((arrays[0][key] == arrays[1][key]).all() for key in arrays[0])
    assert read_metrics(run.folder / METRICS)[-1]["step"] == 4
    facts, text = task.score(load(run.folder), unseen)
    assert json.loads(json.dumps(facts)) == facts and text


def test_a_parser_has_the_positions_of_its_recipe(
    files: Files, small: Callable[..., Recipe]
) -> None:
    for positions in ("learned", "rotary"):
        recipe = small(model__positions=positions, pretrain__shuffle=positions == "learned")
        job = task_called("parse").job(files["parse"][0], recipe, 0)
        assert job.about["model"]["positions"] == positions
        assert isinstance(job.data, TreeExamples)
        assert job.data.shuffle == recipe.pretrain.shuffle


def test_what_a_run_is_not_for_is_refused(
    people: World, small: Callable[..., Recipe], tmp_path: Path
) -> None:
    file = tmp_path / "questions"
    file.write_text("Where was Ann born?\n", encoding="utf-8")
    run = pretrain(people.corpus, small(), RunOptions(tmp_path))
    with pytest.raises(DataError, match="no line has a tab and an answer"):
        task_called("knowledge").score(run, file)
    with pytest.raises(CheckpointError, match="holds a language model"):
        load_parser(tmp_path)


def test_a_checkpoint_of_no_known_task_is_refused(tmp_path: Path) -> None:
    about = {"stage": "reverse", "seed": 0, "step": 1, "steps": 1, "model": {}}
    checkpoint.save(tmp_path / CHECKPOINT, {}, about)
    with pytest.raises(CheckpointError, match="'reverse' belongs to no task; the tasks are"):
        load(tmp_path)
