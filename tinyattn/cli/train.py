"""Wing, commands: commands that train."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import draw, finish, spare
from tinyattn.cli.streams import note
from tinyattn.cli.types import FILE, FOLDER, Choice, parse_settings
from tinyattn.data.text import documents_of, read_answered, read_text
from tinyattn.report.progress import Progress
from tinyattn.tasks import running
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions
from tinyattn.tasks.runs import RUN_FILES, load_run

NOTHING = "; there is nothing to learn"


@click.command()
@opt.option("--out", type=FOLDER, help="Where to keep the world and the runs; by default nowhere.")
@opt.recipe_option(default="world", help="Settings to begin with.")
@opt.model_options()
@opt.RUN
def quickstart(
    out: Path | None, recipe: str, overwrite: bool, seed: int, device: str, workers: int | None,
    **model: Any,
) -> None:  # fmt: skip
    """Run the whole job on a made-up world: a few minutes on two cores.

    Pretrains on a corpus, finetunes on questions with and without that pretraining, and asks about
    held-out people, whose birthplaces stand in the corpus and nowhere else.

    With --attention all, does so for each kind of attention (not without pretraining).

    \b
    tinyattn quickstart
    tinyattn quickstart --attention bigbird
    tinyattn quickstart --attention all
    """
    every = model["attention"] == "all"
    settings = opt.settings_of(**model | {"attention": None} if every else model)
    chosen = load_recipe(recipe, overrides=settings)
    with tempfile.TemporaryDirectory() as nowhere, Progress() as bar:
        device = opt.open_device(device, workers)
        options = bar.watch(RunOptions(out or Path(nowhere), seed, device, workers))
        job = _every_attention if every else _one_attention
        facts, text, stages = job(chosen, options, overwrite=overwrite, say=bar.say)
    opt.show(facts, text)
    if out and not opt.as_json():
        for stage in stages:
            draw(out / stage, stage)
        click.echo(f"The world's files, the runs and the predictions are in {out}.")


def _one_attention(recipe: Any, options: Any, **more: Any) -> tuple[dict[str, Any], str, list[str]]:
    """The quickstart itself: its result for programs and for people, and the runs it made."""
    from tinyattn.tasks.quickstart import as_dict, as_table
    from tinyattn.tasks.quickstart import quickstart as run

    rows, seconds = run(recipe, options, **more)
    return as_dict(rows, seconds), as_table(rows, seconds), ["scratch", "pretrain", "finetune"]


def _every_attention(
    recipe: Any, options: Any, **more: Any
) -> tuple[dict[str, Any], str, list[str]]:
    """The same for every attention."""
    from tinyattn.tasks.family import as_dict, as_table, family

    guess, rows = family(recipe, options, **more)
    runs = [f"{row.name}/{stage}" for row in rows for stage in ("pretrain", "finetune")]
    return as_dict(guess, rows), as_table(guess, rows), runs


@click.command()
@click.argument("corpus", type=FILE)
@opt.option("--objective", type=Choice(["span", "next"]),
        help="Span corruption, or plain next-symbol prediction.")  # fmt: skip
@opt.option(
    "--questions", type=FILE, help="Pairs to mix with the exercises, as finetune takes them."
)
@opt.UNKNOWN
@opt.stage_options("pretrain", "fast, or with --objective next, text")
def pretrain(
    corpus: Path, objective: str | None, questions: Path | None, unknown: str, **options: Any
) -> None:
    """Train a new model on a text file, one document a line.

    \b
    tinyattn pretrain wiki.txt
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
        trained = running.pretrain(text, recipe, bar.watch(run), questions=pairs, unknown=unknown)
    if not run.ranks.writes:
        return
    if all("\t" in line for line in documents_of(text)):
        note(f"every line of {corpus} has a tab, as pairs for finetune have; it was read as a text")
    opt.note_dropped(trained.vocabulary, ["".join(pair) for pair in pairs or []])
    also = f" and {questions.name}" if questions else ""
    finish(run.folder, f"pretrained on {corpus.name}{also}", began=bar.began)


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--from", "start", type=FILE, help="The run to start from; by default runs/pretrain.")
@opt.option(
    "--corpus", type=FILE, help="Start without pretraining; the corpus gives the vocabulary."
)
@opt.UNKNOWN
@opt.stage_options("finetune", "that of --from; or fast")
def finetune(
    pairs: Path, start: Path | None, corpus: Path | None, unknown: str, **options: Any
) -> None:
    """Teach a model to answer questions: PAIRS has a question, a tab and an answer a line.

    \b
    tinyattn finetune birth_places_train.tsv --from runs/pretrain
    tinyattn finetune birth_places_train.tsv --corpus wiki.txt --out runs/scratch
    """
    if start is not None and corpus is not None:
        raise click.UsageError("give --from RUN (pretrained) or --corpus FILE (not), not both")
    of_model = [key for key in parse_settings(options["sets"]) if key.startswith("model.")]
    if corpus is None and (options["attention"] or options["positions"] or of_model):
        raise click.UsageError("the model is that of --from; --attention, --positions and --set "
                               "model.* are for a new one, with --corpus")  # fmt: skip
    origin = start or Path("runs/pretrain")
    begins = corpus is None and not options["resume"]  # else it is the run in --out that goes on
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
            known, recipe, bar.watch(run), start=pretrained, text=text, unknown=unknown
        )
    if not run.ranks.writes:
        return
    opt.note_dropped(trained.vocabulary, ["".join(pair) for pair in known])
    finish(run.folder, f"finetuned on {pairs.name}", began=bar.began)
