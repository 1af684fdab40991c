"""Wing, trace: the command that measures a model."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_picture, finish_picture
from tinyattn.cli.types import FILE, Amount
from tinyattn.data.text import read_answered
from tinyattn.names import nearest
from tinyattn.report.progress import Progress
from tinyattn.tasks.runs import load_run
from tinyattn.trace.cases import cases_of
from tinyattn.trace.measures import PARTS
from tinyattn.trace.measures import trace as measure
from tinyattn.trace.trace_report import as_text, save_picture


def _parts(ctx: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """`lens,probe` as names of measures."""
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in PARTS:
            raise click.BadParameter(f"must be some of {', '.join(PARTS)}; got {name!r}"
                                     f"{nearest(name, PARTS, otherwise=False)}")  # fmt: skip
    return names


@click.command()
@click.argument("pairs", type=FILE, default="runs/world/birth_dev.tsv")
@opt.option("--from", "start", type=FILE, default="runs/finetune",
            help="Run or checkpoint of a finetuned model.")  # fmt: skip
@opt.option("--train", type=FILE, default="runs/world/birth_train.tsv",
            help="Pairs of the finetuning; the probe and the edits use them.")  # fmt: skip
@opt.option("--parts", default=",".join(PARTS), callback=_parts, metavar="NAME,..",
            help="Measures to take.")  # fmt: skip
@opt.option("--edits", default=24, type=Amount(), help="Number of people that are moved.")
@opt.option("--picture", type=FILE, help="PNG file to draw.")
@opt.SEED
@opt.DEVICE
@opt.JSON
def trace(
    pairs: Path, start: Path, train: Path, parts: list[str], edits: int, picture: Path | None,
    seed: int, device: str,
) -> None:  # fmt: skip
    """Show where in a finetuned model the answers to PAIRS come from.

    PAIRS is a file of questions with answers, as for `evaluate`; best are people that the
    finetuning did not have. lens: what each layer predicts. attribution: what each part adds to
    the logit. heads, neurons, edges: what is lost without a part. patching: states of another
    person. probe: where the answer can be read off. edits: one matrix changed so that a person
    moves. For the model of the quickstart this takes less than a minute; `neurons` takes most of
    it.

    \b
    tinyattn trace
    tinyattn trace q/world/birth_dev.tsv --train q/world/birth_train.tsv --from q/finetune
    tinyattn trace --parts lens,heads --picture trace.png
    """
    check_picture(picture)
    asked, taught = read_answered(pairs), read_answered(train)
    trained = load_run(start, device=opt.open_device(device))
    with Progress() as bar:
        found = measure(trained, cases_of(trained, asked), cases_of(trained, taught), parts=parts,
                        edits=edits, seed=seed, begin=bar.begin)  # fmt: skip
    opt.show(found, as_text(found))
    finish_picture(picture, lambda path: save_picture(found, path))
