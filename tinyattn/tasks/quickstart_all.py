"""Chapter 6: the quickstart for every attention type.

The quickstart tests whether pretraining puts knowledge into weights. This file tests which
attention types can learn it. World, recipe and questions are the same; only the attention block
differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyattn.data.world import make_world
from tinyattn.models import ATTENTION_TYPES, possible_positions
from tinyattn.tasks.evaluation import Score, examined, most_common, score
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import held_runs
from tinyattn.training.settings import SettingError


@dataclass(frozen=True)
class Row:
    """The result of one attention type."""

    name: str
    positions: str
    parameters: int
    score: Score
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON; other programs use its keys."""
        facts = {"name": self.name, "positions": self.positions, "parameters": self.parameters}
        return {**facts, "seconds": self.seconds, **self.score.as_dict()}


def causal_attentions() -> list[str]:
    """The attention types that can be causal, so that a GPT can use them."""
    return [name for name, block in ATTENTION_TYPES.items() if "causal" not in block.cannot]


def with_attention(recipe: Recipe, name: str) -> Recipe:
    """The recipe with another attention type, and learned positions if it cannot have rotary ones.

    Raises: SettingError if the attention type does not fit the recipe.
    """
    positions = possible_positions(name, recipe.model.positions)
    try:
        return replace(recipe, model=replace(recipe.model, attention=name, positions=positions))
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from error


def quickstart_all(
    recipe: Recipe,
    options: RunOptions,
    *,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
    on_guess: Callable[[Score], None] = lambda guess: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> tuple[Score, list[Row]]:
    """Pretrain, finetune and score a model of each attention type, in folders of `options.folder`.

    Args:
        names: keys of ATTENTION_TYPES; by default all that can be causal.
        overwrite: whether to replace earlier files and runs in the folders.
        say: called with the name of each part of the job when it begins.
        on_guess: called with the score of the most common place, before the first model.
        on_row: called with each row when it is computed.
    Returns: the score of the most common place, and a row for each name.
    """
    recipes = {name: with_attention(recipe, name) for name in names or causal_attentions()}
    at = {
        (name, stage): replace(options, folder=options.folder / name / stage)
        for name in recipes
        for stage in ("pretrain", "finetune")
    }
    with held_runs([run.folder for run in at.values()], overwrite=overwrite):
        world = make_world(seed=options.seed)
        world.save(options.folder / "world", overwrite=overwrite)
        places = [place for _, place in world.dev]
        common = most_common([place for _, place in world.train])
        guess, rows = score([common] * len(places), places), []
        on_guess(guess)
        for name, ours in recipes.items():
            began, run = time.perf_counter(), at[name, "finetune"]
            say(f"{name}: pretrain")
            pretrained = pretrain(world.corpus, ours, at[name, "pretrain"])
            say(f"{name}: finetune")
            trained = finetune(world.train, ours, run, start=pretrained)
            found = examined(trained, world.dev, run.folder, options.workers)
            rows.append(Row(name, ours.model.positions, trained.model.parameter_count(),
                            found, time.perf_counter() - began))  # fmt: skip
            on_row(rows[-1])
    return guess, rows


def as_dict(guess: Score, rows: Sequence[Row]) -> dict[str, Any]:
    """The result as a dictionary for JSON; other programs use its keys."""
    return {"most common place": guess.as_dict(), "rows": [row.as_dict() for row in rows]}


def first_lines(guess: Score) -> list[str]:
    """The headings of the table, and the row of the most common place."""
    low, high = guess.interval
    return [
        "attention             positions  parameters      correct     95 % interval    seconds",
        f"  {'most common place':43s}{guess.correct:5d} of {guess.total:<5d}"
        f"{100 * low:7.1f} to {100 * high:.1f} %",
    ]


def line(row: Row) -> str:
    """A row of the table."""
    low, high = row.score.interval
    return (f"  {row.name:20s}{row.positions:10s}{row.parameters:11,d}  {row.score.correct:5d} of "
            f"{row.score.total:<5d}{100 * low:7.1f} to {100 * high:.1f} %"
            f"{row.seconds:9.0f}")  # fmt: skip
