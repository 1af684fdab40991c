"""Chapter 12, the end: what is installed, and what is in a run. Next: read it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyattn import __version__
from tinyattn.cli.options import JSON, option, print_json, recipe_option
from tinyattn.cli.types import FILE


@click.command()
@option("--from", "start", type=FILE, help="Describe this run or checkpoint.")
@recipe_option(help="Print this recipe's settings.")
@JSON
def info(start: Path | None, recipe: str | None, as_json: bool) -> None:
    """What is installed; or what is in a run; or a recipe's settings."""
    from tinyattn.tasks.recipe import load_recipe, to_toml

    if start and recipe:
        raise click.UsageError("give either --from RUN or --recipe NAME")
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
            if isinstance(value, dict):
                value = [f"{name}: {about}" for name, about in value.items()]
            click.echo("\n    ".join([f"{key}:", *value]) if isinstance(value, list)
                       else f"{key}: {value}")  # fmt: skip


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
    import numpy as np

    from tinyattn.attention import spell_out
    from tinyattn.backend import describe_gpu
    from tinyattn.models import MECHANISMS
    from tinyattn.report import curves
    from tinyattn.tasks.recipe import recipe_names, recipe_summary
    from tinyattn.threads import cores_and_blas

    no_picture = curves.why_none()
    threads, blas = cores_and_blas(np)
    cuda: str | list[str]
    try:
        devices, cuda = ["cpu", "cuda"], describe_gpu()
    except RuntimeError as error:
        devices, cuda = ["cpu"], str(error)
    return {
        "version": __version__,
        "devices": devices,
        "backend": f"numpy {np.__version__}",
        "threads": threads,
        "blas": blas,
        "cuda": cuda,
        "pictures": f"no: {no_picture}" if no_picture else "matplotlib",
        "recipes": {name: recipe_summary(name) for name in recipe_names()},
        "attention": [spell_out(name, MECHANISMS) for name in MECHANISMS],
    }
