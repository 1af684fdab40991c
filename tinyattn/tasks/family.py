"""Chapter 6: the same job for every attention.

The quickstart asks whether pretraining puts knowledge into weights; this asks which kinds of
attention can read and keep it. Same world, same recipe, same questions; only the block that looks
around differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyattn.data.world import make_world
from tinyattn.models import MECHANISMS, possible_positions
from tinyattn.tasks.evaluation import Score, examined, most_common, score
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import held_runs
from tinyattn.training.settings import SettingError


@dataclass(frozen=True)
class Row:
    """How one kind of attention did."""

    name: str
    positions: str
    parameters: int
    score: Score
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        facts = {"name": self.name, "positions": self.positions, "parameters": self.parameters}
        return {**facts, "seconds": self.seconds, **self.score.as_dict()}


def causal_attentions() -> list[str]:
    """What a GPT can be made with."""
    return [name for name, kind in MECHANISMS.items() if "causal" not in kind.cannot]


def with_attention(recipe: Recipe, name: str) -> Recipe:
    """The recipe with another attention, and learned positions where it cannot have rotary ones.

    Raises: SettingError if it does not fit.
    """
    positions = possible_positions(name, recipe.model.positions)
    try:
        return replace(recipe, model=replace(recipe.model, attention=name, positions=positions))
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from error


def family(
    recipe: Recipe,
    options: RunOptions,
    *,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Score, list[Row]]:
    """Pretrain, finetune and examine a model of each kind in `options.folder`, a folder for each.

    Args:
        names: of MECHANISMS; by default all that can be causal.
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
        guess = most_common([place for _, place in world.train])
        rows = []
        for name, ours in recipes.items():
            began, run = time.perf_counter(), at[name, "finetune"]
            say(f"{name}: pretrain")
            pretrained = pretrain(world.corpus, ours, at[name, "pretrain"])
            say(f"{name}: finetune")
            trained = finetune(world.train, ours, run, start=pretrained)
            found = examined(trained, world.dev, run.folder, options.workers)
            rows.append(Row(name, ours.model.positions, trained.model.parameter_count(),
                            found, time.perf_counter() - began))  # fmt: skip
    return score([guess] * len(places), places), rows


def as_dict(guess: Score, rows: Sequence[Row]) -> dict[str, Any]:
    """The result under the names that other programs rely on."""
    return {"most common place": guess.as_dict(), "rows": [row.as_dict() for row in rows]}


def as_table(guess: Score, rows: Sequence[Row]) -> str:
    """The result for people."""
    low, high = guess.interval
    lines = [
        "attention             positions  parameters   right of all   95 % interval    seconds",
        f"  {'most common place':43s}{guess.correct:5d} of {guess.total:<5d}"
        f"{100 * low:7.1f} to {100 * high:.1f} %",
    ]
    for row in rows:
        low, high = row.score.interval
        lines.append(
            f"  {row.name:20s}{row.positions:10s}{row.parameters:11,d}  {row.score.correct:5d} of "
            f"{row.score.total:<5d}{100 * low:7.1f} to {100 * high:.1f} %{row.seconds:9.0f}"
        )
    return "\n".join(lines)
