"""Wing, commands: the facts of an installation, a run or a recipe."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from tinyattn import __version__
from tinyattn.attention import spell_out
from tinyattn.cli import options as opt
from tinyattn.cli.types import FILE
from tinyattn.dispatch import FORMULAS, KERNELS
from tinyattn.gpu import describe_gpu
from tinyattn.models import ATTENTION_TYPES
from tinyattn.report import curves
from tinyattn.report.text_table import Column, table
from tinyattn.switches import FORMULAS_VARIABLE, switched_off
from tinyattn.tasks.recipe import load_recipe, recipe_names, recipe_summary, to_toml
from tinyattn.tasks.runs import load_run
from tinyattn.workers import threads_and_blas


@click.command()
@opt.option("--from", "start", type=FILE, help="Run or checkpoint to describe.")
@opt.recipe_option(help="Recipe whose settings to print.")
@opt.option("--kernels", is_flag=True, help="List all formulas and their kernels.")
@opt.JSON
def info(start: Path | None, recipe: str | None, kernels: bool) -> None:
    """Print facts about the installation, a run or a recipe.

    Without options: versions, devices, kernels, recipes, and attention types with their options.
    With --from: the stage, steps, seed, size and settings of a model. With --kernels: the kernels
    that can compute in place of each formula, and the calls that they take.

    \b
    tinyattn info
    tinyattn info --from runs/pretrain
    tinyattn info --recipe world
    """
    if sum(map(bool, (start, recipe, kernels))) > 1:
        raise click.UsageError("give either --from RUN or --recipe NAME or --kernels")
    if recipe:
        tables = load_recipe(recipe).tables()
        opt.show(tables, to_toml(tables, comments=True).removesuffix("\n"))
    elif kernels:
        rows = _kernels()
        opt.show({"rows": rows}, "\n".join(table(rows, KERNEL_COLUMNS)))
    elif start:
        facts = _about_run(start)
        opt.show(facts, *_lines(facts))
    else:
        facts = _about_machine()
        opt.show(facts, *_lines(facts | {"kernels": _in_use(**facts["kernels"])}))


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    """The lines for some facts: one each, or several for a list."""
    for key, value in facts.items():
        if isinstance(value, dict):
            value = [f"{name}: {about}" for name, about in value.items()]
        yield "\n    ".join([f"{key}:", *value]) if isinstance(value, list) else f"{key}: {value}"


KERNEL_COLUMNS = [
    Column("formula", "{name}"), Column("kernel", lambda row: row["device"] or "none"),
    Column("calls that it takes", lambda row: row["takes"] or ("all" if row["device"] else "")),
]  # fmt: skip


def _kernels_of(room: str) -> list[str]:
    return sorted(name for name, where in KERNELS if where == room)


def _kernels() -> list[dict[str, str]]:
    """A row for each kernel with the calls that it takes, then for each formula without kernel."""
    rows = []
    for (name, device), kernel in sorted(KERNELS.items()):
        takes = (inspect.getdoc(kernel.why_not) or "") if kernel.why_not else ""
        rows.append({"name": name, "device": device, "takes": takes.partition("\n")[0]})
    alone = FORMULAS.keys() - {name for name, _ in KERNELS}
    return rows + [{"name": name, "device": "", "takes": ""} for name in sorted(alone)]


def _in_use(off: list[str], **devices: list[str]) -> str:
    """The number of kernels, the ones that are off, and the variable or option that did it."""
    counts = ", ".join(f"{device} {len(names)}" for device, names in devices.items() if names)
    by = [FORMULAS_VARIABLE] * bool(os.environ.get(FORMULAS_VARIABLE))
    group = click.get_current_context().find_root()
    typed = group.get_parameter_source("formulas") is click.core.ParameterSource.COMMANDLINE
    by += ["--formulas"] * typed
    state = f"off: {', '.join(off)}, by {' and '.join(by)}" if off else "in use"
    return f"{state}; {counts}" if counts else "none; formulas compute"


def _about_run(start: Path) -> dict[str, Any]:
    trained = load_run(start)
    rounding = {key: trained.about.get(key) for key in ("formulas", "kernels")}
    return {
        **{key: trained.about[key] for key in ("stage", "step", "steps", "seed")},
        "parameters": trained.model.parameter_count(),
        **{key: value for key, value in rounding.items() if value},
        **{f"model.{k}": v for k, v in trained.about["model"].items()},
    }


def _about_machine() -> dict[str, Any]:
    no_picture = curves.why_none()
    threads, blas = threads_and_blas(np)
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
        "kernels": {
            "off": switched_off(),
            **{room: _kernels_of(room) for room in ("cpu", "numba", "cuda")},
        },
        "pictures": f"no: {no_picture}" if no_picture else "matplotlib",
        "recipes": {name: recipe_summary(name) for name in recipe_names()},
        "attention": [spell_out(name, ATTENTION_TYPES) for name in ATTENTION_TYPES],
    }
