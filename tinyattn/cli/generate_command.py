"""Wing, commands: text from a trained model."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from tinyattn.cli import options as opt
from tinyattn.cli.types import FILE, Amount, Real, typed
from tinyattn.data.text import DataError
from tinyattn.models import generate as generate_ids
from tinyattn.rng import generator
from tinyattn.tasks.runs import load_run
from tinyattn.workers import one_thread


@click.command()
@opt.option("--from", "start", type=FILE, default="runs/pretrain",
            help="Run or checkpoint that generates.")  # fmt: skip
@opt.option("--prompt", type=typed, metavar="TEXT", required=True, help="Text to continue.")
@opt.option("--count", default=200, type=Amount(),
            help="Tokens to generate (a token is one character).")  # fmt: skip
@opt.option("--temperature", default=1.0, type=Real(0),
            help="Divisor of the logits: below 1, likely tokens become likelier; 0 always takes "
            "the most likely token (greedy).")  # fmt: skip
@opt.option("--top-k", type=Amount(), metavar="K",
            help="Sample from the K most likely tokens only.")  # fmt: skip
@opt.option("--top-p", type=Real(0, 1, min_open=True), metavar="P",
            help="Sample from the smallest set of tokens whose probabilities sum to at least "
            "P.")  # fmt: skip
@opt.UNKNOWN
@opt.SEED
@opt.DEVICE
@opt.JSON
def generate(
    start: Path, prompt: str, count: int, temperature: float, top_k: int | None,
    top_p: float | None, unknown: str, seed: int, device: str,
) -> None:  # fmt: skip
    """Generate text with a trained model, one token after the other.

    The first example continues the prompt, in less than a second, with a sentence about an
    invented person, if the model was trained on the data of `tinyattn world`. A model that
    was pretrained to fill gaps also generates MASK, one character that looks like two question
    marks: in its training examples it replaced the text that was cut out.

    \b
    tinyattn generate --prompt "Who is " --count 60
    tinyattn generate --from runs/book --prompt "Once" --temperature 0.8
    """
    if temperature == 0 and (top_k or top_p):
        raise click.UsageError("--top-k and --top-p restrict sampling; --temperature 0 does not "
                               "sample")  # fmt: skip
    trained = load_run(start, device=opt.open_device(device))
    ids = trained.vocabulary.encode(prompt, unknown=unknown)
    if not len(ids):
        raise DataError("the prompt is empty; give at least one character of the vocabulary")
    opt.note_dropped(trained.vocabulary, [prompt])
    text, shown = trained.vocabulary.decode(ids), not opt.as_json()
    click.echo(text * shown, nl=False)
    rng = generator(seed)
    with one_thread(np):
        for (i,) in generate_ids(trained.model, ids[None], count, temperature=temperature,
                                 top_k=top_k, top_p=top_p, rng=rng):  # fmt: skip
            text += trained.vocabulary.decode([i])
            click.echo(text[-1] * shown, nl=False)
    opt.show({"text": text}, "")  # only the last newline is missing
