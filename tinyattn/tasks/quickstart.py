"""Chapter 6: the quickstart, which runs the whole job on synthetic data in a few minutes.

Generate a world; pretrain on its corpus; finetune with and without pretraining; ask both models
about the held-out people; compare them with a baseline, the most common place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tinyattn.data.world import make_world
from tinyattn.tasks.evaluation import Score, examined, most_common, score
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import held_runs

Row = tuple[str, Score]
HEADINGS = "birthplaces of held-out people     correct   accuracy    95 % interval"


def quickstart(
    recipe: Recipe,
    options: RunOptions,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> tuple[list[Row], float]:
    """Run the job in `options.folder`; returns the rows of the table and the time in seconds.

    The folder then contains the world's files and three runs: pretrain, finetune and scratch.

    Args:
        overwrite: whether to replace earlier files and runs in the folder.
        say: called with the name of each part of the job when it begins.
        on_row: called with each row when it is computed.
    """
    rows: list[Row] = []

    def add(name: str, found: Score) -> None:
        rows.append((name, found))
        on_row(rows[-1])

    began = time.perf_counter()
    at = {
        name: replace(options, folder=options.folder / name)
        for name in ("scratch", "pretrain", "finetune")
    }
    with held_runs([run.folder for run in at.values()], overwrite=overwrite):
        world = make_world(seed=options.seed)
        world.save(options.folder / "world", overwrite=overwrite)
        places = [place for _, place in world.dev]
        guess = most_common([place for _, place in world.train])
        add("most common place", score([guess] * len(places), places))
        say("scratch")
        scratch = finetune(world.train, recipe, at["scratch"], text=world.corpus)
        found = examined(scratch, world.dev, at["scratch"].folder, options.workers)
        add("without pretraining", found)
        say("pretrain")
        pretrained = pretrain(world.corpus, recipe, at["pretrain"])
        say("finetune")
        finetuned = finetune(world.train, recipe, at["finetune"], start=pretrained)
        found = examined(finetuned, world.dev, at["finetune"].folder, options.workers)
        add("pretrained", found)
    return rows, time.perf_counter() - began


def as_dict(rows: list[Row], seconds: float) -> dict[str, Any]:
    """The result as a dictionary for JSON; other programs use its keys."""
    return {"rows": [{"name": name, **s.as_dict()} for name, s in rows], "seconds": seconds}


def line(row: Row) -> str:
    """A row of the table."""
    name, s = row
    low, high = s.interval
    return (f"  {name:27s}{s.correct:6d} of {s.total:<6d}{100 * s.accuracy:6.1f} %"
            f"{100 * low:8.1f} to {100 * high:.1f} %")  # fmt: skip
