"""Wing, commands: one trained model with another attention type."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import spare
from tinyattn.cli.types import FILE, FOLDER, Choice
from tinyattn.tasks.conversion import convert as rewrite
from tinyattn.tasks.runs import RUN_FILES, held_run, load_run


@click.command()
@opt.option("--from", "start", type=FILE, default="runs/pretrain",
            help="Run or checkpoint to rewrite.")  # fmt: skip
@opt.option("--to", type=Choice(["bilinear", "multihead"]), default="bilinear",
        help="Attention type of the new model.")  # fmt: skip
@opt.option("--out", type=FOLDER, required=True, help="Run folder to write.")
@opt.OVERWRITE
@opt.JSON
def convert(start: Path, to: str, out: Path, overwrite: bool) -> None:
    """Rewrite a multi-head model as a bilinear one, or back.

    Bilinear attention has one matrix in place of the query and key matrices of each head, and the
    same outputs. A model with rotary positions cannot be rewritten, since no single matrix gives
    its scores: train one with --positions learned, as in the first example. A good result: the
    largest difference of the logits is about 2e-14.

    \b
    tinyattn pretrain world/corpus.txt --recipe world --positions learned --out runs/learned
    tinyattn convert --from runs/learned --out runs/merged
    tinyattn convert --from runs/merged --to multihead --out runs/back
    """
    spare("--out", out, {"the run of --from": start}, RUN_FILES)
    trained = load_run(start)
    with held_run(out, overwrite=overwrite) as folder:
        made = rewrite(trained, to, folder)
    opt.show(
        {"folder": str(folder), "attention": to, **asdict(made)},
        f"{made.before:,} parameters became {made.after:,}; largest difference of the logits in "
        f"float64: {made.difference:.1e}, and back again {made.back:.1e}; the run is in {folder}",
    )
