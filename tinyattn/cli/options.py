"""Wing, commands: options and small services that commands share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tinyattn.backend import get_device
from tinyattn.cli.streams import note
from tinyattn.cli.types import FILE, FOLDER, Amount, Choice, parse_penalties, parse_settings, wrong
from tinyattn.data.forms import ADVICE, form_known, look_alike, mixed_forms
from tinyattn.limits import MOST_SEED, MOST_WORKERS, seed_of
from tinyattn.models import possible_positions
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions
from tinyattn.tasks.runs import held_run, load
from tinyattn.training.checkpoint import CheckpointError
from tinyattn.training.ranks import all_ranks

Pairs = Sequence[tuple[str, str | None]]


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """A click option whose help shows its default."""
    return click.option(*names, **{"show_default": True, **settings})


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order in which help lists them."""

    def decorate(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


AS_JSON = "tinyattn.as_json"
"""Where click keeps what --json says."""


def as_json() -> bool:
    """Whether the command that runs was told --json."""
    return bool(click.get_current_context().meta[AS_JSON])


def show(facts: Mapping[str, Any], *texts: str) -> None:
    """What a command has found: one object on stdout for programs, or texts for people."""
    for text in [json.dumps(facts, ensure_ascii=False)] if as_json() else texts:
        click.echo(text)


SEED = option("--seed", default=0, type=Amount(0, MOST_SEED), help="Decides all that is random.")
DEVICE = option("--device", default="cpu", type=Choice(["cpu", "cuda"]), help="Where to run.")
WORKERS = option("--workers", type=Amount(1, MOST_WORKERS), help="Threads; by default one a core.")
JSON = option(
    "--json",
    is_flag=True,
    help="Print one JSON object instead of text.",
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update({AS_JSON: value}),
)
UNKNOWN = option("--unknown", default="error", type=Choice(["error", "drop"]),
                 help="What to do with a character that is not in the vocabulary.")  # fmt: skip


def set_option(table: str = "pretrain") -> Callable[[Any], Any]:
    """--set, whose help has an example of a table that the command uses."""
    example = f"{table}.learning_rate=3e-3"
    return option("--set", "sets", multiple=True, metavar="TABLE.KEY=VALUE",
                  help=f"One setting, such as {example}; may be repeated.")  # fmt: skip


def recipe_option(**settings: Any) -> Callable[[Any], Any]:
    """--recipe, which takes a name; what to do with a file is told."""
    return option("--recipe", callback=_no_file, **settings)


def _no_file(ctx: Any, parameter: Any, name: str | None) -> str | None:
    """A recipe's name, and not a file's, which goes elsewhere if the command takes one."""
    if name is not None and name.endswith(".toml"):
        takes = any(other.name == "config" for other in ctx.command.params)
        raise click.BadParameter(f"must be a name that `tinyattn info` lists; got {name!r}"
                                 f"{'; a file goes with --config' * takes}")  # fmt: skip
    return name


def _only_one(ctx: Any, parameter: Any, values: tuple[str, ...]) -> str | None:
    """The last of several would win without a word."""
    if len(values) > 1:
        raise click.BadParameter(f"give one only; got {' and '.join(values)}")
    return values[0] if values else None


ATTENTION = option(
    "--attention", multiple=True, callback=_only_one, metavar="NAME[,OPTION=NUMBER..]",
    help="Which attention, such as bigbird,block=16; `tinyattn info` lists them.",
)  # fmt: skip
POSITIONS = option(
    "--positions",
    type=Choice(["learned", "rotary"]),
    help="By default as the recipe says, learned if the attention has no keys.",
)
PENALTY = option(
    "--penalty",
    "penalties",
    multiple=True,
    metavar="NAME=WEIGHT[,cap=SQUARE]",
    help="Tell heads to look at few places (focus=0.01) or near ones "
    "(near=0.001,cap=64); may be repeated.",
)
CONFIG = option("--config", type=FILE, help="A TOML file whose settings override the recipe's.")
OVERWRITE = option("--overwrite", is_flag=True, help="Replace what --out holds.")
RUN = together(OVERWRITE, SEED, DEVICE, WORKERS, JSON)


def model_options(table: str = "pretrain") -> Callable[[Any], Any]:
    """The options of a command that makes a model, and sets what stands in a table; see
    `settings_of`."""
    return together(ATTENTION, POSITIONS, PENALTY, set_option(table))


def stage_options(stage: str, default_recipe: str) -> Callable[[Any], Any]:
    """The options of a command that trains one stage, "pretrain" or "finetune"."""
    return together(
        option("--epochs", type=Amount(), help="Passes over the data."),
        option("--steps", type=Amount(), help="Steps, instead of epochs."),
        recipe_option(help=f"Settings to begin with: a name that `tinyattn info` lists; "
                           f"by default {default_recipe}."),
        CONFIG, model_options(stage),
        option("--out", type=FOLDER, default=f"runs/{stage}", help="The run folder to write."),
        option("--resume", is_flag=True, help="Go on with the run in --out, as it was begun."),
        RUN,
    )  # fmt: skip


def open_stage(
    table: str, options: dict[str, Any], base: Any, extra: dict[str, Any]
) -> tuple[Any, Any]:
    """The recipe and the run that a training command's options ask for, locked till its end.

    Args:
        table: the recipe's table that --epochs and --steps set.
        base: a recipe's name, or a Recipe; a run that goes on begins with its own.
        extra: settings that other options of the command set.
    """
    with wrong(error=RuntimeError):
        ranks = all_ranks(np, options["device"])
    asked = settings_of(options["attention"], options["positions"], options["penalties"],
                        options["sets"])  # fmt: skip
    settings = asked | extra
    epochs, steps = options["epochs"], options["steps"]
    if epochs and steps:
        raise click.UsageError("give either --epochs or --steps")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume goes on with a run, --overwrite replaces it; give one")
    if epochs:
        settings |= {f"{table}.epochs": epochs, f"{table}.steps": 0}  # a recipe may say steps
    if steps:
        settings[f"{table}.steps"] = steps
    resume, seed = options["resume"], options["seed"]

    def over(base: Any) -> Any:
        return load_recipe(base, config=options["config"], overrides=settings)

    # What is misspelt is told before anything about the folder.
    named = options["recipe"] or (None if resume else base)
    recipe = over(named) if named else None
    run = held_run(options["out"], overwrite=options["overwrite"], resume=resume, resumable=True,
                   ranks=ranks)  # fmt: skip
    folder = click.get_current_context().with_resource(run)  # until the command ends
    if resume:  # as it was begun, but for what is asked for now
        begun: Any = load(folder)
        recipe = recipe or over(begun.recipe)
        if not _is_given("seed"):
            try:
                seed = seed_of(begun.about["seed"])
            except ValueError as error:
                raise CheckpointError(f"{folder}: {error}") from error
    device = open_device(options["device"], options["workers"])
    return recipe, RunOptions(folder, seed, device, options["workers"], resume=resume, ranks=ranks)


def _is_given(name: str) -> bool:
    """Whether an option was typed, and does not just have its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def settings_of(
    attention: str | None, positions: str | None, penalties: tuple[str, ...], sets: tuple[str, ...]
) -> dict[str, Any]:
    """The settings that `model_options` ask for; --set gives way to the others."""
    settings = {"model.attention": attention, "model.positions": positions}
    if attention is not None and positions is None:
        with wrong():
            if possible_positions(attention, "rotary") == "learned":
                settings["model.positions"] = "learned"
    asked: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
    asked |= {f"penalty.{k}": v for k, v in parse_penalties(penalties).items()}
    return parse_settings(sets) | asked


def open_device(name: str, workers: int | None = None) -> str:
    """`name`, if such a device can be used.

    Raises: SettingError with what to install; click.UsageError for workers on a GPU.
    """
    if workers and name != "cpu":
        raise click.UsageError(f"--workers are threads of the CPU; leave it out with {name}")
    with wrong(error=RuntimeError):
        return get_device(name).name


def note_dropped(vocabulary: Any, texts: list[str]) -> None:
    """Say on stderr which characters of `texts` were left out, if any."""
    lost = Counter(character for text in texts for character in text
                   if character not in vocabulary.ids)  # fmt: skip
    if lost:
        which = ", ".join(f"{character!r} ({count})" for character, count in lost.most_common(5))
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        forms = {form_known(t, vocabulary.ids) for t in texts if not lost.keys().isdisjoint(t)}
        form = forms.pop() if len(forms) == 1 else ""
        known = f"; the form {form} of the same text is there as a whole" if form else ""
        note(f"left out what is not in the vocabulary: {which}{more}{known}")


def note_forms(texts: Mapping[Path | None, str | Pairs | None]) -> None:
    """Say on stderr if the texts or pairs of these files have accents in two forms of Unicode."""
    known = {
        str(path): text if isinstance(text, str) else "\n".join(f"{q}\t{a}" for q, a in text)
        for path, text in texts.items() if text
    }  # fmt: skip
    if remark := mixed_forms(known):
        note(remark)


def note_alike(predictions: Sequence[str], answers: Sequence[str]) -> None:
    """Say on stderr how many answers are wrong by the form of Unicode of their accents alone."""
    if count := sum(map(look_alike, predictions, answers)):
        note(f"{count} of {len(answers)} answers count as wrong and look right: only the form of "
             f"their accents is another; {ADVICE}")  # fmt: skip
