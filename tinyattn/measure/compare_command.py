"""Engine room, measuring: the command that sets mechanisms side by side."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target, note_no_picture
from tinyattn.cli.types import FILE, Amount
from tinyattn.limits import MOST_POSITIONS, brief
from tinyattn.measure import compare as run
from tinyattn.measure.comparison import LENGTHS
from tinyattn.measure.comparison_report import as_table, save_picture
from tinyattn.models import MECHANISMS
from tinyattn.report.curves import NoPicture, NotInstalled, new_figure
from tinyattn.report.progress import Progress


def _lengths(ctx: click.Context, parameter: click.Parameter, text: str | None) -> list[int] | None:
    """`256,512` as whole numbers, of which growth needs two."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    for word in words:
        digits = word.lstrip("0")
        long = len(digits) > len(str(MOST_POSITIONS))  # too long for int, perhaps
        if word.isdecimal() and (long or int(digits or "0") > MOST_POSITIONS):
            raise click.BadParameter(f"must be at most {MOST_POSITIONS}; got {brief(digits)}")
    lengths = [int(word) for word in words if word.isdecimal()]
    if len(lengths) < len(words) or len({*lengths}) < 2 or min(lengths) < 1:
        raise click.BadParameter(f"want two lengths or more, such as 256,512; got {brief(text)}")
    return lengths


@click.command()
@opt.option("--attention", "names", multiple=True, metavar="NAME[,OPTION=NUMBER]",
        help="Only this one, such as bigbird or bigbird,block=16; may be repeated.")  # fmt: skip
@opt.option("--lengths", callback=_lengths, metavar="T,T,..",
        help="Measure growth over these lengths; by default 256,512,1024,2048,4096.")  # fmt: skip
@opt.option("--length", type=Amount(1, MOST_POSITIONS),
        help="Length to compare at; by default the longest.")  # fmt: skip
@opt.option("--width", default=64, type=Amount(), help="Numbers a position, C.")
@opt.option("--heads", default=4, type=Amount(), help="Heads, which must divide the width.")
@opt.option("--rounds", default=5, type=Amount(),
        help="Turns of each at the longest length, and up to 8 times at others.")  # fmt: skip
@opt.option("--picture", type=FILE, help="Draw what each sees and how it grows into this PNG.")
@opt.JSON
def compare(
    names: tuple[str, ...], lengths: list[int] | None, length: int | None, width: int, heads: int,
    rounds: int, picture: Path | None,
) -> None:  # fmt: skip
    """Set all kinds of attention side by side: what each sees, and what it costs.

    Whether it can be causal is found by changing inputs; time and memory are measured, with one
    thread, beside the formulas.

    \b
    tinyattn compare --picture attention.png
    tinyattn compare --attention bigbird,block=16 --attention linformer --lengths 1024,8192
    """
    names = tuple(dict.fromkeys(names)) or tuple(MECHANISMS)
    if width % heads:
        raise click.BadParameter(f"must divide the width {width}; got {heads}",
                                 param_hint="--heads")  # fmt: skip
    if picture is not None:
        if picture.suffix != ".png":
            raise click.BadParameter(f"must end with .png; got {picture}", param_hint="--picture")
        try:
            new_figure(1, 1)
        except NotInstalled as error:
            raise click.UsageError(f"--picture needs matplotlib: {error}") from error
        except NoPicture:
            pass  # the table can be had all the same, and the note stands behind it
        check_target(picture, "--picture")
    with Progress() as bar:
        try:
            found = run(
                names, width=width, heads=heads, lengths=lengths or LENGTHS, length=length,
                rounds=rounds, on_start=bar.start, on_step=bar.advance,
            )  # fmt: skip
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    opt.show(found.as_dict(), as_table(found))
    if picture is not None:
        try:
            save_picture(found, picture)
        except NoPicture as error:
            note_no_picture(picture, error)
            return
        if not opt.as_json():
            click.echo(f"The picture is {picture}.")
