"""Engine room, measuring: the command that says where the time of a training step goes."""

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
from tinyattn.noise import generator
from tinyattn.report.progress import Progress
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tasks.recipe import load_recipe


@click.command()
@opt.recipe_option(default="fast", help="Whose model, optimiser and batch: a name that "
                                    "`tinyattn info` lists.")  # fmt: skip
@opt.CONFIG
@opt.model_options()
@opt.option("--batch", type=Amount(), help="Texts a step; by default as in pretraining.")
@opt.option("--characters", default=256, type=Amount(3),
        help="Size of the vocabulary, which a corpus would decide.")  # fmt: skip
@opt.option("--steps", default=5, type=Amount(), help="Steps to look at.")
@opt.SEED
@opt.WORKERS
@opt.JSON
def profile(
    recipe: str, config: Path | None, batch: int | None, characters: int, steps: int, seed: int,
    workers: int | None, **model: Any,
) -> None:  # fmt: skip
    """Show where the time of a training step goes: by operation, and beside what it must take.

    The model is a recipe's; the texts are random, all as long as the model can read. With a corpus
    there would be shorter ones, and a step would take less.

    \b
    tinyattn profile --recipe a5 --batch 32
    tinyattn profile --set model.width=512 --attention bigbird
    """
    made = load_recipe(recipe, config=config, overrides=opt.settings_of(**model))
    train, gpt = made.pretrain, GPT(made.model_for(characters), seed=seed)
    shape = (batch or train.batch, gpt.config.longest + 1)
    with wrong("--batch"):
        check_numbers(f"a batch of {shape[0]} texts", shape[0] * shape[1])
    text = generator(seed).integers(1, characters, shape)  # 0 is PAD
    with Progress() as bar:
        bar.start(0, steps + 2)
        found = profile_step(
            language_model_loss(gpt, made.penalty), train.make_optimizers(gpt),
            Batch(text[:, :-1], text[:, 1:]), steps=steps, clip=train.clip, workers=workers,
            on_step=bar.advance,
        )  # fmt: skip
    about = {"recipe": recipe, "batch": shape[0], "length": shape[1] - 1,
             "characters": characters, "parameters": gpt.parameter_count()}  # fmt: skip
    head = (
        f"{recipe}: {about['parameters']:,} parameters, {train.optimizer}, {shape[0]} random texts "
        f"of {shape[1] - 1} symbols, float32, {found.workers} worker{'s' * (found.workers > 1)}; "
        f"mean of {steps} step{'s' * (steps > 1)}\n"
    )
    opt.show({**about, **found.as_dict()}, head, as_table(found))
