"""Wing, explore: the command that writes a page about a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target, spare
from tinyattn.cli.types import FILE, typed
from tinyattn.data.files import write
from tinyattn.explore.model_page import sections_of
from tinyattn.explore.page import explore as page
from tinyattn.report.progress import Progress
from tinyattn.tasks.runs import load_run


@click.command()
@opt.option("--from", "start", type=FILE, default="runs/finetune", help="Run or checkpoint.")
@opt.option("--text", "texts", multiple=True, required=True,
            help="Text to show, such as a question; may be repeated.")  # fmt: skip
@opt.option("--out", type=FILE, required=True, help="HTML file to write.")
@opt.OVERWRITE
@opt.JSON
def explore(start: Path, texts: tuple[str, ...], out: Path, overwrite: bool) -> None:
    """Write a page that shows what a model does with a text.

    The page is one HTML file that needs no connection. It shows all heads, the lines from queries
    to keys, the parts of one attention score, what each layer predicts already, the answer without
    each head, neuron and attention edge, and the generated tokens. Two texts of the same length
    also show patching: vectors of the first text, put into the second. This takes some seconds. A
    good result for the quickstart's model: the page has about 130 kB for each text.

    \b
    tinyattn explore --text "Where was Nizmel Widmirv born?" --out page.html
    tinyattn explore --text "Where was Ada King born?" --text "Where was Bob Lind born?" --out p.htm
    """
    if out.suffix not in (".html", ".htm"):
        raise click.BadParameter(f"must end with .html; got {out}", param_hint="--out")
    spare("--out", out, {"the run of --from": start})
    check_target(out, "--out")
    if out.exists() and not overwrite:
        raise click.UsageError(f"{out} exists already; use --overwrite, or another --out")
    trained = load_run(start)
    with Progress() as bar:
        sections = sections_of(trained, [typed(text) for text in texts], begin=bar.begin)
    config = trained.model.config
    notes = [f"{start}: {config.attention}, {config.layers} layers of {config.heads} heads, width "
             f"{config.width}, {trained.model.parameter_count():,} parameters."]  # fmt: skip
    text = page(sections, title="What a model does with a text", notes=notes)
    write(out, text)
    opt.show({"out": str(out), "bytes": len(text.encode()), "sections": len(sections)},
             f"{out}: {len(text.encode()) / 1000:,.0f} kB; open it in a browser")  # fmt: skip
