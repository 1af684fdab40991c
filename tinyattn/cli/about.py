"""Chapter 12, continued: the made-up world's files, and what there is. Next: read it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyattn import __version__
from tinyattn.cli.options import FILE, FOLDER, JSON, OVERWRITE, SEED, option, print_json


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
    from tinyattn.data.world import CORPUS, make_world
    from tinyattn.training.settings import SettingError

    if (out / CORPUS).exists() and not overwrite:
        raise SettingError(f"{out} holds a world already; use --overwrite, or another --out")
    try:
        made = make_world(people=people, places=places, sentences=sentences, dev=dev, test=test,
                          seed=seed)  # fmt: skip
    except ValueError as error:
        raise SettingError(str(error).removeprefix("make_world: ")) from error
    made.save(out)
    facts = {"folder": str(out), "lines": made.corpus.count("\n"), "train": len(made.train),
             "dev": len(made.dev), "test": len(made.test)}  # fmt: skip
    if as_json:
        print_json(facts)
    else:
        click.echo(f"{facts['lines']} lines about {people} people in {out}: {facts['train']} to "
                   f"learn from, {dev} + {test} held out")  # fmt: skip


@click.command()
@option("--from", "start", type=FILE, help="Describe this run or checkpoint.")
@option("--recipe", help="Print this recipe's settings.")
@JSON
def info(start: Path | None, recipe: str | None, as_json: bool) -> None:
    """What is installed; or what is in a run; or a recipe's settings."""
    from tinyattn.tasks.recipe import load_recipe, to_toml

    if recipe:
        tables = load_recipe(recipe).tables()
        if as_json:
            print_json(tables)
        else:
            click.echo(to_toml(tables), nl=False)
        return
    facts = _about_run(start) if start else _about_machine()
    if as_json:
        print_json(facts)
    else:
        for key, value in facts.items():
            click.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


def _about_run(start: Path) -> dict[str, Any]:
    from tinyattn.tasks.runs import load_run

    trained = load_run(start)
    return {
        "stage": trained.about["stage"],
        "step": trained.about["step"],
        "steps": trained.about["steps"],
        "seed": trained.about["seed"],
        "parameters": trained.model.parameter_count(),
        "characters": len(trained.vocabulary),
        **{f"model.{k}": v for k, v in trained.about["model"].items()},
    }


def _about_machine() -> dict[str, Any]:
    import os

    import numpy as np
    from threadpoolctl import threadpool_info

    from tinyattn.backend import get_device
    from tinyattn.report import curves
    from tinyattn.tasks.recipe import recipe_names

    devices = ["cpu"]
    try:
        get_device("cuda")
        devices.append("cuda")
    except RuntimeError as error:
        cuda = str(error)
    else:
        cuda = "ready"
    blas = [f"{i['internal_api']} {i.get('version')}" for i in threadpool_info()
            if i["user_api"] == "blas"]  # fmt: skip
    return {
        "version": __version__,
        "devices": devices,
        "backend": f"numpy {np.__version__}",
        "threads": os.cpu_count() or 1,
        "blas": ", ".join(blas) or "unknown",
        "cuda": cuda,
        "pictures": "matplotlib" if curves.available() else "no: pip install 'tinyattn[plot]'",
        "recipes": recipe_names(),
    }
