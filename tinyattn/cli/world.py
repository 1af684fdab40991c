"""Chapter 12, continued: the made-up world's files. Next: commands that train."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli.options import JSON, OVERWRITE, SEED, option, print_json
from tinyattn.cli.types import FOLDER


@click.command()
@option("--out", type=FOLDER, required=True, help="The folder to write.")
@option("--people", default=300, help="People altogether.")
@option("--places", default=20, help="Different birthplaces.")
@option("--sentences", default=4, help="Sentences about each person.")
@option("--dev", default=100, help="People held out, with answers.")
@option("--test", default=0, help="People held out, without answers.")
@OVERWRITE
@SEED
@JSON
def world(
    out: Path, people: int, places: int, sentences: int, dev: int, test: int, overwrite: bool,
    seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Write a made-up world: a corpus, and questions about its people, in A5's formats."""
    from tinyattn.data.world import make_world
    from tinyattn.training.settings import SettingError

    try:
        made = make_world(people=people, places=places, sentences=sentences, dev=dev, test=test,
                          seed=seed)  # fmt: skip
    except ValueError as error:
        raise SettingError(str(error).removeprefix("make_world: ")) from error
    made.save(out, overwrite=overwrite)
    facts = {"folder": str(out), "lines": made.corpus.count("\n"), "train": len(made.train),
             "dev": len(made.dev), "test": len(made.test)}  # fmt: skip
    if as_json:
        print_json(facts)
    else:
        more = f", {test} more without answers" if test else ""
        click.echo(f"{facts['lines']} lines about {people} people in {out}: {facts['train']} to "
                   f"learn from, {dev} held out{more}")  # fmt: skip
