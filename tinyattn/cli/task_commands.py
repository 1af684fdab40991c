"""Wing, commands: training and scoring for any task, by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import finish, spare
from tinyattn.cli.types import FILE, Choice
from tinyattn.report.progress import Progress
from tinyattn.tasks.running import train
from tinyattn.tasks.runs import RUN_FILES, load
from tinyattn.tasks.task import TASKS, task_called, task_of


@click.command("train")
@click.argument("task", type=Choice([*TASKS]))
@click.argument("file", type=FILE)
@opt.stage_options("pretrain", "fast")
def train_task(task: str, file: Path, **options: Any) -> None:
    """Train a new model for a task, by the name of the task.

    FILE is the training data: for knowledge a text file with one document per line, as for
    `tinyattn pretrain`; for parse a treebank in the CoNLL-U format. With 2,001 sentences, the
    first example takes six minutes on two cores, and the loss ends below 0.001 nats. `tinyattn
    score` scores the model on other data.

    \b
    tinyattn train parse en_ewt-ud-dev.conllu --epochs 30 --out runs/parser
    tinyattn score en_ewt-ud-test.conllu --from runs/parser
    """
    spare("--out", options["out"], {"the file": file, "the file of --config": options["config"]},
          RUN_FILES)  # fmt: skip
    recipe, run = opt.open_stage("pretrain", options, "fast", {})
    with Progress() as bar:
        train(lambda: task_called(task).job(file, recipe, run.seed), bar.attach(run))
    if run.ranks.writes:
        finish(run.folder, f"{task}: trained on {file.name}", began=bar.began)


@click.command()
@click.argument("file", type=FILE)
@opt.option("--from", "start", type=FILE, default="runs/pretrain",
            help="Run or checkpoint to score.")  # fmt: skip
@opt.DEVICE
@opt.WORKERS
@opt.JSON
def score(file: Path, start: Path, device: str, workers: int | None) -> None:
    """Score a trained model on held-out data of its task.

    For a model that answers questions, FILE has a question, a tab and an answer per line, and the
    score is the accuracy; the model of the quickstart has 93 % (first example, one second). For a
    parser, FILE is a treebank, and the score is UAS and LAS, as those of `tinyattn parse`.

    \b
    tinyattn score runs/world/birth_dev.tsv --from runs/finetune
    tinyattn score en_ewt-ud-test.conllu --from runs/parser
    """
    run = load(start, device=opt.open_device(device, workers))
    opt.show(*task_of(run.about["stage"]).score(run, file, workers))
