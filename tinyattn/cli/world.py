"""Wing, commands: the made-up world's files."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.types import FOLDER
from tinyattn.data.world import make_world
from tinyattn.training.settings import SettingError


@click.command()
@opt.option("--out", type=FOLDER, required=True, help="The folder to write.")
@opt.option("--people", default=300, help="People altogether.")
@opt.option("--places", default=20, help="Different birthplaces.")
@opt.option("--sentences", default=4, help="Sentences about each person.")
@opt.option("--dev", default=100, help="People held out, with answers.")
@opt.option("--test", default=0, help="People held out, without answers.")
@opt.OVERWRITE
@opt.SEED
@opt.JSON
def world(
    out: Path, people: int, places: int, sentences: int, dev: int, test: int, overwrite: bool,
    seed: int,
) -> None:  # fmt: skip
    """Write a made-up world: a corpus, and questions about its people, in A5's formats."""
    try:
        made = make_world(people=people, places=places, sentences=sentences, dev=dev, test=test,
                          seed=seed)  # fmt: skip
    except ValueError as error:
        raise SettingError(str(error).removeprefix("make_world: ")) from error
    made.save(out, overwrite=overwrite)
    facts = {"folder": str(out), "lines": made.corpus.count("\n"), "train": len(made.train),
             "dev": len(made.dev), "test": len(made.test)}  # fmt: skip
    more = f", {test} more without answers" if test else ""
    opt.show(facts, f"{facts['lines']} lines about {people} people in {out}: {facts['train']} to "
                    f"learn from, {dev} held out{more}")  # fmt: skip
