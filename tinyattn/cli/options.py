"""Wing, commands: options, notes and output that commands share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tinyattn.backend import get_device
from tinyattn.cli.own_code import named_attention
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
    """One decorator for several options; help lists them in this order."""

    def decorate(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


AS_JSON = "tinyattn.as_json"
"""The key under which click keeps the value of --json."""


def as_json() -> bool:
    """Whether the current command was called with --json."""
    return bool(click.get_current_context().meta[AS_JSON])


def show(facts: Mapping[str, Any], *texts: str) -> None:
    """Print the result of a command: one JSON object with --json, else the texts."""
    for text in [json.dumps(facts, ensure_ascii=False)] if as_json() else texts:
        click.echo(text)


SEED = option("--seed", default=0, type=Amount(0, MOST_SEED), help="Seed of all random numbers.")
DEVICE = option("--device", default="cpu", type=Choice(["cpu", "cuda"]),
                help="Device to compute on; cuda needs an NVIDIA GPU and CuPy.")  # fmt: skip
WORKERS = option("--workers", type=Amount(1, MOST_WORKERS), show_default="one per core",
                 help="Threads of the CPU.")  # fmt: skip
JSON = option(
    "--json",
    is_flag=True,
    help="Print one JSON object instead of text.",
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update({AS_JSON: value}),
)
UNKNOWN = option("--unknown", default="error", type=Choice(["error", "drop"]),
                 help="Characters that are not in the model's vocabulary: stop with an error, or "
                 "drop them from the text.")  # fmt: skip


def set_option(table: str = "pretrain") -> Callable[[Any], Any]:
    """--set; its help has an example of a table that the command uses."""
    example = f"{table}.learning_rate=3e-3"
    return option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE",
                  callback=lambda ctx, _, values: parse_settings(values),
                  help=f"Setting of the recipe, such as {example}; may be repeated. "
                  "`tinyattn info --recipe world` lists the settings.")  # fmt: skip


def recipe_option(**settings: Any) -> Callable[[Any], Any]:
    """--recipe, which takes a name; for a file, the error says where it goes."""
    return option("--recipe", callback=_no_file, metavar="NAME", **settings)


def _no_file(ctx: Any, parameter: Any, name: str | None) -> str | None:
    """The name of a recipe. Raises: click.BadParameter for the name of a file."""
    if name is not None and name.endswith(".toml"):
        takes = any(other.name == "config" for other in ctx.command.params)
        raise click.BadParameter(f"must be a name that `tinyattn info` lists; got {name!r}"
                                 f"{'; a file goes with --config' * takes}")  # fmt: skip
    return name


def _only_one(ctx: Any, parameter: Any, values: tuple[str, ...]) -> str | None:
    """The one attention type; click would silently take the last of several.

    Raises: click.BadParameter for several.
    """
    if len(values) > 1:
        raise click.BadParameter(f"give one only; got {' and '.join(values)}")
    return named_attention(ctx, parameter, values[0]) if values else None


ATTENTION = option(
    "--attention", multiple=True, callback=_only_one, metavar="NAME[,OPTION=NUMBER..]",
    help="Attention type, such as bigbird,block=16; `tinyattn info` lists them. A class of your "
    "own is MODULE:CLASS or FILE.py:CLASS.",
)  # fmt: skip
POSITIONS = option(
    "--positions",
    type=Choice(["learned", "rotary"]),
    show_default="the recipe's, or learned for attention without keys",
    help="Position encoding.",
)
PENALTY = option(
    "--penalty",
    "penalties",
    multiple=True,
    metavar="NAME=WEIGHT[,cap=SQUARE]",
    help="Penalty added to the loss. focus=0.01 adds 0.01 times the entropy of the attention "
    "weights, so that heads attend to few positions. near=0.001,cap=64 adds 0.001 times the mean "
    "squared distance between query and key, so that they attend to near positions; distances "
    "above cap count as cap. May be repeated.",
)
CONFIG = option(
    "--config", type=FILE, help="TOML file of settings. They override those of the recipe."
)
OVERWRITE = option("--overwrite", is_flag=True, help="Replace the files in --out.")
RUN = together(OVERWRITE, SEED, DEVICE, WORKERS, JSON)


def model_options(table: str = "pretrain") -> Callable[[Any], Any]:
    """The options of a command that makes a model; see `settings_of`.

    Args: table: a table of the recipe for the example in the help of --set.
    """
    return together(ATTENTION, POSITIONS, PENALTY, set_option(table))


def stage_options(stage: str, default_recipe: str) -> Callable[[Any], Any]:
    """The options of a command that trains one stage, "pretrain" or "finetune"."""
    return together(
        option("--epochs", type=Amount(), show_default="the recipe's",
               help="Passes over the training data."),
        option("--steps", type=Amount(), help="Training steps, in place of --epochs."),
        recipe_option(show_default=default_recipe,
                      help="Recipe, the settings to start with; `tinyattn info` lists the names."),
        CONFIG, model_options(stage),
        option("--out", type=FOLDER, default=f"runs/{stage}", help="Run folder to write."),
        option("--resume", is_flag=True, help="Continue the run in --out with its own settings."),
        RUN,
    )  # fmt: skip


def open_stage(
    table: str, options: dict[str, Any], base: Any, extra: dict[str, Any]
) -> tuple[Any, Any]:
    """The recipe and the run for the options of a training command.

    The run folder is locked until the command ends.

    Args:
        table: the table of the recipe that --epochs and --steps set.
        base: the name of a recipe, or a Recipe; a run that is resumed starts with its own.
        extra: settings from other options of the command.
    """
    with wrong(error=RuntimeError):
        ranks = all_ranks(np, options["device"])
    given = settings_of(options["attention"], options["positions"], options["penalties"],
                        options["settings"])  # fmt: skip
    settings = given | extra
    epochs, steps = options["epochs"], options["steps"]
    if epochs and steps:
        raise click.UsageError("give either --epochs or --steps")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume continues a run, --overwrite replaces it; give one")
    if epochs:
        settings |= {f"{table}.epochs": epochs, f"{table}.steps": 0}  # a recipe may say steps
    if steps:
        settings[f"{table}.steps"] = steps
    resume, seed = options["resume"], options["seed"]

    def over(base: Any) -> Any:
        return load_recipe(base, config=options["config"], overrides=settings)

    # First check what was typed, then the folder.
    device = open_device(options["device"], options["workers"])
    named = options["recipe"] or (None if resume else base)
    recipe = over(named) if named else None
    run = held_run(options["out"], overwrite=options["overwrite"], resume=resume, resumable=True,
                   ranks=ranks)  # fmt: skip
    folder = click.get_current_context().with_resource(run)  # until the command ends
    if resume:  # its own settings, except those that are given now
        begun: Any = load(folder)
        recipe = recipe or over(begun.recipe)
        if not _is_given("seed"):
            try:
                seed = seed_of(begun.about["seed"])
            except ValueError as error:
                raise CheckpointError(f"{folder}: {error}") from error
    return recipe, RunOptions(folder, seed, device, options["workers"], resume=resume, ranks=ranks)


def _is_given(name: str) -> bool:
    """Whether the user gave an option, so that its value is not the default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def settings_of(
    attention: str | None,
    positions: str | None,
    penalties: tuple[str, ...],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """The settings from `model_options`; the other options override --set."""
    typed = {"model.attention": attention, "model.positions": positions}
    if attention is not None and positions is None:
        with wrong():
            if possible_positions(attention, "rotary") == "learned":
                typed["model.positions"] = "learned"
    given: dict[str, Any] = {key: value for key, value in typed.items() if value is not None}
    given |= {f"penalty.{k}": v for k, v in parse_penalties(penalties).items()}
    return settings | given


def open_device(name: str, workers: int | None = None) -> str:
    """The name of the device, if it can be used.

    Raises: SettingError that says what to install; click.UsageError for workers on a GPU.
    """
    if workers and name != "cpu":
        raise click.UsageError(f"--workers are threads of the CPU; leave it out with {name}")
    with wrong(error=RuntimeError):
        return get_device(name).name


def note_dropped(vocabulary: Any, texts: list[str]) -> None:
    """Print a note about the characters of `texts` that were dropped, if any."""
    lost = Counter(character for text in texts for character in text
                   if character not in vocabulary.ids)  # fmt: skip
    if lost:
        which = ", ".join(f"{character!r} ({count})" for character, count in lost.most_common(5))
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        forms = {form_known(t, vocabulary.ids) for t in texts if not lost.keys().isdisjoint(t)}
        form = forms.pop() if len(forms) == 1 else ""
        known = f"; in the form {form} all its characters are in the vocabulary" if form else ""
        note(f"dropped characters that are not in the vocabulary: {which}{more}{known}")


def note_forms(texts: Mapping[Path | None, str | Pairs | None]) -> None:
    """Print a note if these files write accents in two forms of Unicode."""
    known = {
        str(path): text if isinstance(text, str) else "\n".join(f"{q}\t{a}" for q, a in text)
        for path, text in texts.items() if text
    }  # fmt: skip
    if remark := mixed_forms(known):
        note(remark)


def note_alike(predictions: Sequence[str], answers: Sequence[str]) -> None:
    """Print how many answers are wrong only because their accents are in another Unicode form."""
    if count := sum(map(look_alike, predictions, answers)):
        note(f"{count} of {len(answers)} answers count as wrong, although they look right: their "
             f"accents are in another form of Unicode; {ADVICE}")  # fmt: skip
