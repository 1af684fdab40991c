"""Wing, commands: the files of the synthetic data."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.types import FOLDER
from tinyattn.data.world import make_world
from tinyattn.training.settings import SettingError


@click.command()
@opt.option("--out", type=FOLDER, required=True, help="Folder to write.")
@opt.option("--people", default=300, help="People in all, from 1 to 20,000.")
@opt.option("--places", default=20, help="Different birthplaces, from 2 to 100.")
@opt.option("--sentences", default=4, help="Sentences about each person, from 1 to 10.")
@opt.option("--dev", default=100, help="People held out for evaluation: questions with answers.")
@opt.option("--test", default=0, help="People held out as a test: questions without answers.")
@opt.OVERWRITE
@opt.SEED
@opt.JSON
def world(
    out: Path, people: int, places: int, sentences: int, dev: int, test: int, overwrite: bool,
    seed: int,
) -> None:  # fmt: skip
    """Write synthetic data: a corpus and questions.

    The corpus is about invented people, and the questions ask for their birthplaces. The files have
    the formats of A5, assignment 5 of Stanford CS224N: corpus.txt has one sentence per line;
    birth_train.tsv and birth_dev.tsv have a question, a tab and an answer per line;
    birth_test_inputs.tsv, with --test, has questions only. The corpus contains all answers. The
    first example takes a second, and writes 1,200 lines and 300 questions.

    \b
    tinyattn world --out world
    tinyattn world --out large --people 2000 --dev 500 --seed 1
    """
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
