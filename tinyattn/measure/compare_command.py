"""Engine room, measuring: the command that compares attention types."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_picture, finish_picture
from tinyattn.cli.own_code import named_attention
from tinyattn.cli.types import FILE, Amount
from tinyattn.limits import MOST_POSITIONS, brief
from tinyattn.measure import compare as run
from tinyattn.measure.comparison import LENGTHS
from tinyattn.measure.comparison_report import as_table, save_picture
from tinyattn.models import ATTENTION_TYPES
from tinyattn.report.progress import Progress


def _lengths(ctx: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """`256,512` as whole numbers; growth needs at least two."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        digits = word.lstrip("0")
        long = len(digits) > len(str(MOST_POSITIONS))  # too long for int, perhaps
        if word.isdecimal() and (long or int(digits or "0") > MOST_POSITIONS):
            raise click.BadParameter(f"must be at most {MOST_POSITIONS}; got {brief(digits)}")
    lengths = [int(word) for word in words if word.isdecimal()]
    if len(lengths) < len(words) or len({*lengths}) < 2 or min(lengths) < 1:
        raise click.BadParameter(f"needs two lengths or more, such as 256,512; got {brief(text)}")
    return lengths


@click.command()
@opt.option("--attention", "names", multiple=True, metavar="NAME[,OPTION=NUMBER..]",
        callback=named_attention, show_default="all",
        help="Attention type to measure, such as bigbird,block=16, or MODULE:CLASS; may be "
             "repeated.")  # fmt: skip
@opt.option("--lengths", callback=_lengths, metavar="T,T,..",
        default=",".join(map(str, LENGTHS)),
        help="Sequence lengths over which growth is measured.")  # fmt: skip
@opt.option("--length", type=Amount(1, MOST_POSITIONS), show_default="the longest of --lengths",
        help="Sequence length of the comparison.")  # fmt: skip
@opt.option("--width", default=64, type=Amount(), help="Width C (d_model).")
@opt.option("--heads", default=4, type=Amount(), help="Heads, which must divide the width.")
@opt.option("--rounds", default=5, type=Amount(),
        help="Steps at the longest length; up to 8 times as many at shorter ones.")  # fmt: skip
@opt.option("--picture", type=FILE,
        help="PNG file to draw: which positions each type attends to, and how its time and memory "
             "grow.")  # fmt: skip
@opt.JSON
def compare(
    names: tuple[str, ...], lengths: list[int], length: int | None, width: int, heads: int,
    rounds: int, picture: Path | None,
) -> None:  # fmt: skip
    """Compare attention types: the positions they attend to, their time and their memory.

    Whether a type can be causal is tested by changing inputs. Time and memory are measured with one
    thread, for one attention block. This takes a minute. BigBird, for example, needs a quarter of
    the time of multi-head attention at 4,096 positions.

    \b
    tinyattn compare --picture attention.png
    tinyattn compare --attention bigbird,block=16 --attention linformer --lengths 1024,8192
    """
    names = tuple(dict.fromkeys(names)) or tuple(ATTENTION_TYPES)
    if width % heads:
        raise click.BadParameter(f"must divide the width {width}; got {heads}",
                                 param_hint="--heads")  # fmt: skip
    check_picture(picture)
    with Progress() as bar:
        try:
            found = run(
                names, width=width, heads=heads, lengths=lengths, length=length,
                rounds=rounds, on_start=bar.start, on_step=bar.advance,
            )  # fmt: skip
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    opt.show(found.as_dict(), as_table(found))
    finish_picture(picture, lambda path: save_picture(found, path))
