"""Wing, exercise: the command that lists exercises, writes one, and grades one."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from typing import Any

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target
from tinyattn.cli.own_code import module_of
from tinyattn.cli.types import FILE, Amount, wrong
from tinyattn.data.files import write
from tinyattn.exercise.blank import blank
from tinyattn.exercise.exercise import Exercise
from tinyattn.exercise.exercises import EXERCISES
from tinyattn.names import nearest
from tinyattn.report import Column, table


class ExerciseName(click.ParamType[Exercise]):
    """The type of NAME: an exercise; its error suggests the nearest one."""

    name = "exercise"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Exercise:
        """The exercise of this name."""
        if isinstance(value, Exercise):
            return value
        if value not in EXERCISES:
            self.fail(f"there is no exercise {value!r}{nearest(value, EXERCISES)}")
        return EXERCISES[value]


@click.command()
@click.argument("exercise", metavar="[NAME]", type=ExerciseName(), required=False)
@opt.option("--out", type=FILE, show_default="NAME.py", help="Python file to write.")
@opt.option("--check", "own", type=FILE, metavar="FILE.py",
            help="File with the function that you wrote, to grade it.")  # fmt: skip
@opt.option("--examples", default=40, type=Amount(), help="Arguments to try for each check.")
@opt.OVERWRITE
@opt.JSON
def exercise(
    exercise: Exercise | None, out: Path | None, own: Path | None, examples: int, overwrite: bool
) -> None:
    """Write functions of this package yourself, and have them checked.

    Without NAME the exercises are listed, in reading order. With NAME a file is written that has
    the function's signature and docstring, but no body. Write the body, then give the file to
    --check. It searches for small arguments with a wrong result or a wrong gradient, and checks the
    laws of attention on softmax, attention and matmul. If it finds some, they are printed, with
    what came out and what is right; then the exit status is 1. What your function prints goes to
    stderr. The file is run as a program of yours. If it does not end, press Ctrl-C.

    \b
    tinyattn exercise
    tinyattn exercise softmax
    tinyattn exercise softmax --check softmax.py
    """
    if own is not None and (out is not None or overwrite):
        raise click.UsageError("--check reads a file, --out and --overwrite are for writing one")
    if exercise is None and (own is not None or out is not None or overwrite):
        raise click.UsageError("give the name of an exercise; `tinyattn exercise` lists them")
    if exercise is None:
        _list()
    elif own is None:
        _write(exercise, out or Path(f"{exercise.name}.py"), overwrite)
    else:
        _grade(exercise, own, examples)


def _list() -> None:
    """Print all exercises."""
    rows = [{"name": e.name, "file": e.file, "task": e.title} for e in EXERCISES.values()]
    columns = [Column("name", "{name}"), Column("file", "{file}"), Column("task", "{task}")]
    opt.show({"rows": rows}, *table(rows, columns))


def _write(exercise: Exercise, out: Path, overwrite: bool) -> None:
    """Write the file of one exercise."""
    if out.suffix != ".py":
        raise click.BadParameter(f"must end with .py; got {out}", param_hint="--out")
    check_target(out, "--out")
    if out.exists() and not overwrite:
        raise click.UsageError(f"{out} exists already; use --overwrite, or another --out")
    write(out, blank(exercise, out.name))
    opt.show({"name": exercise.name, "out": str(out)},
             f"{out}: write the body of {exercise.name}, then check it:",
             f"tinyattn exercise {exercise.name} --check {out}")  # fmt: skip


def _grade(exercise: Exercise, own: Path, examples: int) -> None:
    """Print the grade of a function. Raises: SystemExit with status 1 if a check does not hold."""
    if find_spec("hypothesis") is None:
        raise click.UsageError("--check needs Hypothesis: pip install 'tinyattn[check]'")
    from tinyattn.exercise import grade_report
    from tinyattn.exercise.grade import grade

    if own.suffix != ".py":
        raise click.BadParameter(f"must end with .py; got {own}", param_hint="--check")
    with redirect_stdout(sys.stderr), wrong("--check"):
        made = module_of(str(own))
        f = vars(made).get(exercise.name)
        if not callable(f):
            raise ValueError(f"{own} has no function {exercise.name!r}")
        f = unwrap(f)  # it may have `@op`, as in the package
        exercise.check_signature(f, own)
        found = grade(exercise, f, examples=examples)
    opt.show(grade_report.as_dict(found), grade_report.as_text(found))
    if not found.ok:
        raise SystemExit(1)
