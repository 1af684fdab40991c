"""Engine room, measuring: the command that profiles a training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyattn.checks import check_numbers
from tinyattn.cli import options as opt
from tinyattn.cli.types import Amount, wrong
from tinyattn.data import Batch
from tinyattn.measure import profile_step
from tinyattn.measure.profile_report import as_table
from tinyattn.models import GPT
from tinyattn.report.progress import Progress
from tinyattn.rng import generator
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tasks.recipe import load_recipe


@click.command()
@opt.recipe_option(default="fast", help="Recipe of the model, optimizer and batch: a name "
                                    "that `tinyattn info` lists.")  # fmt: skip
@opt.CONFIG
@opt.model_options()
@opt.option("--batch", type=Amount(), show_default="the recipe's", help="Sequences per step.")
@opt.option("--vocabulary", default=256, type=Amount(3),
        help="Number of tokens in the vocabulary.")  # fmt: skip
@opt.option("--steps", default=5, type=Amount(), help="Number of steps to measure.")
@opt.SEED
@opt.WORKERS
@opt.JSON
def profile(
    recipe: str, config: Path | None, batch: int | None, vocabulary: int, steps: int, seed: int,
    workers: int | None, **model: Any,
) -> None:  # fmt: skip
    """Profile a training step: the time of each operation, and the least time of the step.

    The model is that of a recipe. The sequences are random and have the full context length; those
    of a corpus are shorter, so its steps take less time. With the default settings this takes 15
    seconds on two cores, and the matrix products of linear maps take half of the step.

    \b
    tinyattn profile --recipe a5 --batch 32
    tinyattn profile --set model.width=512 --attention bigbird
    """
    made = load_recipe(recipe, config=config, overrides=opt.settings_of(**model))
    train, gpt = made.pretrain, GPT(made.model_for(vocabulary), seed=seed)
    shape = (batch or train.batch, gpt.config.max_length + 1)
    with wrong("--batch"):
        check_numbers(f"a batch of {shape[0]} sequences", shape[0] * shape[1])
    tokens = generator(seed).integers(1, vocabulary, shape)  # 0 is PAD
    with Progress() as bar:
        bar.start(0, steps + 2)
        found = profile_step(
            language_model_loss(gpt, made.penalty), train.make_optimizers(gpt),
            Batch(tokens[:, :-1], tokens[:, 1:]), steps=steps, clip=train.clip, workers=workers,
            on_step=bar.advance,
        )  # fmt: skip
    about = {"recipe": recipe, "batch": shape[0], "length": shape[1] - 1,
             "vocabulary": vocabulary, "parameters": gpt.parameter_count()}  # fmt: skip
    head = (
        f"{recipe}: {about['parameters']:,} parameters, {train.optimizer}, {shape[0]} random "
        f"sequences of {shape[1] - 1} tokens, float32, {found.workers} "
        f"worker{'s' * (found.workers > 1)}; mean of {steps} step{'s' * (steps > 1)}\n"
    )
    opt.show({**about, **found.as_dict()}, head, as_table(found))
