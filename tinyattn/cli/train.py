"""Wing, commands: the quickstart, pretraining and finetuning."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tinyattn.attention.lookup import own_class
from tinyattn.cli import options as opt
from tinyattn.cli.outputs import draw, finish, spare
from tinyattn.cli.streams import note
from tinyattn.cli.types import FILE, FOLDER, Choice
from tinyattn.data.text import documents_of, read_answered, read_text
from tinyattn.report.progress import Progress
from tinyattn.tasks import running
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions
from tinyattn.tasks.runs import RUN_FILES, load_run

NOTHING = "; there is nothing to learn"


@click.command()
@opt.option("--out", type=FOLDER, default="runs", help="Folder for the data and the models.")
@opt.recipe_option(default="world", help="Recipe, the settings to start with.")
@opt.model_options()
@opt.RUN
def quickstart(
    out: Path, recipe: str, overwrite: bool, seed: int, device: str, workers: int | None,
    **model: Any,
) -> None:  # fmt: skip
    """Run the whole experiment on synthetic data.

    Make a corpus about invented people, pretrain on it, finetune on questions with and without that
    pretraining, and ask about held-out people, whose birthplaces occur in the corpus only. This
    takes about three minutes on two cores. A good result: about 93 of 100 answers are correct with
    pretraining. To answer with the most common place each time gives 19.

    The data and the models stay in --out, where the other commands find them.

    With --attention all, train a model of each attention type, with pretraining only: 46 minutes
    on two cores of an Intel Xeon, 9 on an AMD EPYC.

    \b
    tinyattn quickstart
    tinyattn quickstart --attention bigbird --out bigbird
    tinyattn quickstart --attention all --out all
    """
    every = model["attention"] == "all"
    settings = opt.settings_of(**model | {"attention": None} if every else model)
    chosen = load_recipe(recipe, overrides=settings)
    with Progress() as bar:
        device = opt.open_device(device, workers)
        options = bar.attach(RunOptions(out, seed, device, workers))

        def print_lines(*lines: str) -> None:
            if not opt.as_json():
                bar.close()
                click.echo("\n".join(lines))

        job = _every_attention if every else _one_attention
        job(chosen, options, print_lines, overwrite=overwrite, say=bar.say)


def _one_attention(
    recipe: Any, options: Any, print_lines: Callable[..., None], **more: Any
) -> None:
    """The quickstart itself; each row is printed at once. Then commands to try with its models."""
    from tinyattn.tasks.quickstart import HEADINGS, as_dict, line
    from tinyattn.tasks.quickstart import quickstart as run

    headings = [HEADINGS]

    def print_row(row: Any) -> None:
        print_lines(*headings, line(row))
        headings.clear()  # only the first row has them above it

    rows, seconds = run(recipe, options, **more, on_row=print_row)
    facts = {**as_dict(rows, seconds), "folder": str(options.folder)}
    opt.show(facts, f"{seconds:.0f} seconds")
    _draw_all(options.folder, ["scratch", "pretrain", "finetune"])
    held_out = options.folder / "world" / "birth_dev.tsv"
    question, _ = read_answered(held_out)[0]
    run_of = [] if options.folder == Path("runs") else ["--from", str(options.folder / "finetune")]
    module, _ = own_class(recipe.model.attention)
    start = ["tinyattn", *(["--import", module] if module else [])]
    ask = shlex.join([*start, "ask", question, *run_of])
    evaluate = shlex.join([*start, "evaluate", str(held_out), "--wrong", *run_of])
    print_lines(f"The data and the models are in {options.folder}. Ask the model, and list its "
                f"wrong answers:\n    {ask}\n    {evaluate}")  # fmt: skip


def _every_attention(
    recipe: Any, options: Any, print_lines: Callable[..., None], **more: Any
) -> None:
    """The same for every attention type that can be causal; each row is printed at once."""
    from tinyattn.tasks.quickstart_all import as_dict, first_lines, line, quickstart_all

    guess, rows = quickstart_all(
        recipe, options, **more, on_guess=lambda guess: print_lines(*first_lines(guess)),
        on_row=lambda row: print_lines(line(row)),
    )  # fmt: skip
    opt.show({**as_dict(guess, rows), "folder": str(options.folder)},
             f"The data and the models are in {options.folder}.")  # fmt: skip
    stages = "pretrain", "finetune"
    _draw_all(options.folder, [f"{row.name}/{stage}" for row in rows for stage in stages])


def _draw_all(folder: Path, runs: list[str]) -> None:
    """Draw the curves of some runs in a folder."""
    for run in runs:
        draw(folder / run, run)


@click.command()
@click.argument("corpus", type=FILE)
@opt.option("--objective", type=Choice(["span", "next"]), show_default="the recipe's",
        help="Training objective: fill gaps in documents (span corruption), or predict the next "
        "token of any text (a token is one character).")  # fmt: skip
@opt.option("--questions", type=FILE,
            help="File of questions and answers, as for finetune, to mix with the training "
            "examples.")  # fmt: skip
@opt.UNKNOWN
@opt.stage_options("pretrain", "fast, or with --objective next, text")
def pretrain(
    corpus: Path, objective: str | None, questions: Path | None, unknown: str, **options: Any
) -> None:
    """Train a new model on a text file.

    CORPUS is a UTF-8 text file with one document per line; with --objective next, any text. On the
    data of `tinyattn world`, the first example takes about three minutes on two cores of an Intel
    Xeon, and ends with a loss of about 0.18 nats. With --recipe a5-hour, the corpus of A5,
    assignment 5 of Stanford CS224N, takes about 37 minutes on two cores of an AMD EPYC, and the
    loss ends at about 0.08 nats.

    \b
    tinyattn pretrain world/corpus.txt --recipe world
    tinyattn pretrain wiki.txt --recipe a5-hour
    tinyattn pretrain wiki.txt --questions birth_places_train.tsv
    tinyattn pretrain play.txt --objective next --steps 300 --out runs/play
    mpiexec -n 2 tinyattn pretrain wiki.txt      # the same on two processes
    """
    if unknown != "error" and questions is None:
        raise click.UsageError("--unknown is for --questions; give that too")
    spare("--out", options["out"], {"the corpus": corpus, "the file of --config": options["config"],
                                    "the pairs of --questions": questions}, RUN_FILES)  # fmt: skip
    text = read_text(corpus)
    extra = {"data.objective": objective} if objective else {}
    base = "text" if objective == "next" else "fast"
    recipe, run = opt.open_stage("pretrain", options, base, extra)
    pairs = read_answered(questions, NOTHING) if questions else None
    if run.ranks.writes:
        opt.note_forms({corpus: text, questions: pairs})
    with Progress() as bar:
        trained = running.pretrain(text, recipe, bar.attach(run), questions=pairs, unknown=unknown)
    if not run.ranks.writes:
        return
    if all("\t" in line for line in documents_of(text)):
        note(f"every line of {corpus} has a tab, as in a file of questions and answers; that is "
             "for tinyattn finetune")  # fmt: skip
    opt.note_dropped(trained.vocabulary, ["".join(pair) for pair in pairs or []])
    also = f" and {questions.name}" if questions else ""
    finish(run.folder, f"pretrained on {corpus.name}{also}", began=bar.began,
           heads=bool(recipe.penalty))  # fmt: skip


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--from", "start", type=FILE, show_default="runs/pretrain",
            help="Run or checkpoint to start from.")  # fmt: skip
@opt.option("--corpus", type=FILE,
            help="Train a new model without pretraining, in place of --from; this text file gives "
            "its vocabulary.")  # fmt: skip
@opt.UNKNOWN
@opt.stage_options("finetune", "that of --from, or fast")
def finetune(
    pairs: Path, start: Path | None, corpus: Path | None, unknown: str, **options: Any
) -> None:
    """Teach a pretrained model to answer questions.

    PAIRS is a UTF-8 text file. Each line has a question, one tab and the answer, such as

    \b
      Where was Ada King born?<tab>London

    With the 200 pairs of `tinyattn world` this takes about ten seconds on two cores, and ends with
    a loss of about 0.001 nats. `tinyattn evaluate` prints the accuracy on held-out questions.

    \b
    tinyattn finetune world/birth_train.tsv
    tinyattn finetune birth_places_train.tsv --from runs/pretrain
    tinyattn finetune birth_places_train.tsv --corpus wiki.txt --out runs/scratch
    """
    if start is not None and corpus is not None:
        raise click.UsageError("give --from RUN (pretrained) or --corpus FILE (a new model), not "
                               "both")  # fmt: skip
    of_model = [key for key in options["settings"] if key.startswith("model.")]
    if corpus is None and (options["attention"] or options["positions"] or of_model):
        raise click.UsageError("the model comes from --from; --attention, --positions and --set "
                               "model.* are for a new model, with --corpus")  # fmt: skip
    origin = start or Path("runs/pretrain")
    begins = corpus is None and not options["resume"]  # else the run in --out is resumed
    spare("--out", options["out"], {"the pairs": pairs, "the corpus": corpus,
                                    "the file of --config": options["config"],
                                    "the run of --from": origin if begins else None},
          RUN_FILES)  # fmt: skip
    known = read_answered(pairs, NOTHING)
    text = read_text(corpus) if corpus else None
    pretrained = None if corpus else load_run(origin)
    table = "finetune" if pretrained else "scratch"
    base = pretrained.recipe if pretrained else "fast"
    recipe, run = opt.open_stage(table, options, base, {})
    if run.ranks.writes:
        opt.note_forms({pairs: known, corpus: text})
    with Progress() as bar:
        trained = running.finetune(
            known, recipe, bar.attach(run), start=pretrained, text=text, unknown=unknown
        )
    if not run.ranks.writes:
        return
    opt.note_dropped(trained.vocabulary, ["".join(pair) for pair in known])
    finish(run.folder, f"finetuned on {pairs.name}", began=bar.began, heads=bool(recipe.penalty))
