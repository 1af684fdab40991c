"""Chapter 12: the command line. Each command calls one function of a chapter above.

Options come before the environment (TINYATTN_PRETRAIN_SEED=1), that before a settings file
(--config), and that before the recipe. Exit status: 0 done, 1 the data or a file is bad, 2 wrong
usage; errors are one line on stderr. Long work shows progress, unless stderr is no terminal.
Ctrl-C keeps a checkpoint and says how to go on.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tinyattn import __version__

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path)


class Commands(click.Group):
    """Turns the errors a user can cause into one line and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        from tinyattn.data.text import DataError
        from tinyattn.training.checkpoint import CheckpointError
        from tinyattn.training.loop import Interrupted, TrainingFailed
        from tinyattn.training.settings import SettingError

        try:
            return super().invoke(ctx)
        except (DataError, CheckpointError, TrainingFailed) as error:
            _fail(str(error), 1)
        except (SettingError, DeviceMissing) as error:
            _fail(str(error), 2)
        except Interrupted as error:
            again = " ".join(["tinyattn", *sys.argv[1:]])
            _fail(f"{error}; go on with: {again} --resume", 1)
        except OSError as error:
            _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)


class DeviceMissing(Exception):
    """The device that was asked for is not there."""


def _fail(message: str, status: int) -> None:
    click.echo(f"tinyattn: {' '.join(message.split())}", err=True)
    sys.exit(status)


def _option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, show_default=settings.pop("show_default", True), **settings)


def _run_options(command: Any) -> Any:
    """The options of every command that trains."""
    for decorate in reversed([
        _option("--recipe", default="world", help="Settings to begin with; see `tinyattn info`."),
        _option("--config", type=FILE, help="A TOML file whose settings override the recipe's."),
        _option("--set", "sets", multiple=True, metavar="TABLE.KEY=VALUE",
                help="One setting, such as pretrain.rate=3e-3; may be repeated."),
        _option("--out", type=FOLDER, required=True, help="The run folder to write."),
        _option("--resume", is_flag=True, help="Go on with the run in --out."),
        _option("--overwrite", is_flag=True, help="Replace the run in --out."),
        *_MACHINE, _JSON,
    ]):  # fmt: skip
        command = decorate(command)
    return command


_MACHINE = [
    _option("--seed", default=0, type=click.IntRange(0), help="Decides all that is random."),
    _option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), help="Where to run."),
    _option("--workers", type=click.IntRange(1), help="Threads; by default one a core."),
]
_JSON = _option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
_UNKNOWN = _option("--unknown", default="error", type=click.Choice(["error", "drop"]),
                   help="What to do with a character that is not in the vocabulary.")  # fmt: skip


@click.group(cls=Commands, context_settings={"auto_envvar_prefix": "TINYATTN",
                                             "help_option_names": ["-h", "--help"]})  # fmt: skip
@click.version_option(__version__, prog_name="tinyattn")
def main() -> None:
    """Attention, autograd and a GPT that learns where people were born, in plain NumPy.

    \b
    tinyattn quickstart                         the whole job on a made-up world
    tinyattn world --out world                  the made-up world's files
    tinyattn pretrain world/corpus.txt --out p  then finetune, evaluate
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the same bytes under every locale
            stream.reconfigure(encoding="utf-8")
    from tinyattn.backend import keep_freed_memory

    keep_freed_memory()


@main.command()
@_option("--out", type=FOLDER, help="Where to keep world and runs; by default nowhere.")
@_option("--recipe", default="world", help="Settings to begin with.")
@_option("--set", "sets", multiple=True, metavar="TABLE.KEY=VALUE", help="One setting.")
@_option("--overwrite", is_flag=True, help="Replace the runs in --out.")
@_MACHINE[0]
@_MACHINE[1]
@_MACHINE[2]
@_JSON
def quickstart(
    out: Path | None, recipe: str, sets: tuple[str, ...], overwrite: bool, seed: int, device: str,
    workers: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Run the whole job on a made-up world: a few minutes on two cores.

    Pretrains on a corpus, finetunes on questions with and without that pretraining, and asks about
    held-out people, whose birthplaces stand in the corpus and nowhere else.
    """
    import tempfile

    from tinyattn.tasks.knowledge import RunOptions
    from tinyattn.tasks.quickstart import as_json as to_json
    from tinyattn.tasks.quickstart import quickstart as run
    from tinyattn.tasks.recipe import load_recipe

    settings = load_recipe(recipe, overrides=_overrides(sets))
    with tempfile.TemporaryDirectory() as nowhere, Progress() as bar:
        options = RunOptions(out or Path(nowhere), seed=seed, device=_device(device),
                             workers=workers, on_start=bar.start, on_step=bar.step)  # fmt: skip
        rows, seconds = run(settings, options, overwrite=overwrite, say=bar.say)
    if as_json:
        _print_json(to_json(rows, seconds))
        return
    click.echo("place of birth of held-out people, exact match")
    for name, result in rows:
        click.echo(f"  {name:22s}{result}")
    click.echo(f"{seconds:.0f} seconds")
    if out:
        click.echo(f"runs, predictions and the world's files are in {out}")


@main.command()
@_option("--out", type=FOLDER, required=True, help="The folder to write.")
@_option("--people", default=300, help="People altogether.")
@_option("--places", default=20, help="Different birthplaces.")
@_option("--sentences", default=4, help="Sentences about each person.")
@_option("--dev", default=100, help="People held out, with answers.")
@_option("--test", default=0, help="People held out, without answers.")
@_MACHINE[0]
@_JSON
def world(
    out: Path, people: int, places: int, sentences: int, dev: int, test: int, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Write a made-up world: a corpus, and questions about its people, in A5's formats."""
    from tinyattn.data.world import make_world
    from tinyattn.training.settings import SettingError

    try:
        made = make_world(people=people, places=places, sentences=sentences, dev=dev, test=test,
                          seed=seed)  # fmt: skip
    except ValueError as error:
        raise SettingError(str(error)) from error
    made.save(out)
    facts = {"folder": str(out), "lines": made.corpus.count("\n"), "train": len(made.train),
             "dev": len(made.dev), "test": len(made.test)}  # fmt: skip
    if as_json:
        _print_json(facts)
    else:
        click.echo(f"{facts['lines']} lines about {people} people in {out}: {facts['train']} to "
                   f"learn from, {dev} + {test} held out")  # fmt: skip


@main.command()
@click.argument("corpus", type=FILE)
@_option("--objective", type=click.Choice(["span", "next"]),
         help="Span corruption, or plain next-symbol prediction.")  # fmt: skip
@_option("--epochs", type=click.IntRange(1), help="Passes over the corpus.")
@_option("--steps", type=click.IntRange(1), help="Steps, instead of epochs.")
@_run_options
def pretrain(corpus: Path, objective: str | None, **options: Any) -> None:
    """Train a new model on a text file, one document a line.

    \b
    tinyattn pretrain world/corpus.txt --out runs/pretrain
    tinyattn pretrain play.txt --objective next --recipe text --steps 300 --out runs/play
    """
    from tinyattn.data.text import read_text
    from tinyattn.tasks import knowledge

    text = read_text(corpus)
    extra = {"data.objective": objective} if objective else {}
    recipe, run = _open("pretrain", options, extra)
    with Progress() as bar:
        run = bar.watch(run)
        knowledge.pretrain(text, recipe, run)
    _finish(run.folder, f"pretrained on {corpus.name}", options["as_json"])


@main.command()
@click.argument("pairs", type=FILE)
@_option("--from", "start", type=FILE, help="The run folder or checkpoint to start from.")
@_option("--corpus", type=FILE, help="Start without pretraining; the corpus gives the vocabulary.")
@_option("--epochs", type=click.IntRange(1), help="Passes over the pairs.")
@_option("--steps", type=click.IntRange(1), help="Steps, instead of epochs.")
@_UNKNOWN
@_run_options
def finetune(
    pairs: Path, start: Path | None, corpus: Path | None, unknown: str, **options: Any
) -> None:
    """Teach a model to answer questions: PAIRS has a question, a tab and an answer a line.

    \b
    tinyattn finetune world/birth_train.tsv --from runs/pretrain --out runs/finetune
    """
    from tinyattn.data.text import DataError, read_pairs, read_text
    from tinyattn.tasks import knowledge
    from tinyattn.tasks.runs import load_run

    if (start is None) == (corpus is None):
        raise click.UsageError("give either --from RUN (pretrained) or --corpus FILE (not)")
    known = [(q, a) for q, a in read_pairs(pairs) if a is not None]
    if not known:
        raise DataError(f"{pairs}: no line has a tab and an answer; there is nothing to learn")
    pretrained = load_run(start) if start else None
    text = read_text(corpus) if corpus else None
    recipe, run = _open("finetune" if start else "scratch", options, {})
    with Progress() as bar:
        run = bar.watch(run)
        knowledge.finetune(known, recipe, run, start=pretrained, text=text, unknown=unknown)
    _finish(run.folder, f"finetuned on {pairs.name}", options["as_json"])


@main.command()
@click.argument("pairs", type=FILE)
@_option("--from", "start", type=FILE, required=True, help="The finetuned run or checkpoint.")
@_option("--predictions", type=FILE, help="Where to write them; by default into the run folder.")
@_UNKNOWN
@_MACHINE[1]
@_JSON
def evaluate(
    pairs: Path, start: Path, predictions: Path | None, unknown: str, device: str, as_json: bool
) -> None:
    """Ask a model the questions in PAIRS, and count exact matches where answers are given."""
    from tinyattn.data.text import read_pairs
    from tinyattn.tasks.evaluation import answer, save_predictions, score
    from tinyattn.tasks.runs import load_run

    asked = read_pairs(pairs)
    trained = load_run(start, device=_device(device))
    with Progress() as bar:
        bar.start(0, len(asked))
        answers = answer(trained, [q for q, _ in asked], unknown=unknown, on_answers=bar.advance)
    path = predictions or (start if start.is_dir() else start.parent) / "predictions.tsv"
    save_predictions(path, answers)
    result = score(answers, [a or "" for _, a in asked]) if asked[0][1] is not None else None
    if as_json:
        _print_json({**(result.as_dict() if result else {"total": len(asked)}),
                     "predictions": str(path)})  # fmt: skip
    else:
        click.echo(f"correct: {result}" if result else f"{len(asked)} questions have no answers")
        click.echo(f"predictions: {path}")


@main.command()
@click.argument("pairs", type=FILE)
@_option("--answer", "guess", help="What to answer every time; or use --train.")
@_option("--train", type=FILE, help="Answer with the most common place of these pairs.")
@_JSON
def baseline(pairs: Path, guess: str | None, train: Path | None, as_json: bool) -> None:
    """Score a rule that knows nothing: the same answer every time.

    \b
    tinyattn baseline birth_dev.tsv --answer London
    tinyattn baseline birth_dev.tsv --train birth_places_train.tsv
    """
    from tinyattn.data.text import DataError, read_pairs
    from tinyattn.tasks.evaluation import most_common, score

    if (guess is None) == (train is None):
        raise click.UsageError("give either --answer PLACE or --train PAIRS")
    answers = [a for _, a in read_pairs(pairs) if a is not None]
    if not answers:
        raise DataError(f"{pairs}: no line has a tab and an answer; there is nothing to score")
    if train is not None:
        seen = [a for _, a in read_pairs(train) if a is not None]
        if not seen:
            raise DataError(f"{train}: no line has a tab and an answer")
        guess = most_common(seen)
    result = score([str(guess)] * len(answers), answers)
    if as_json:
        _print_json({"answer": guess, **result.as_dict()})
    else:
        click.echo(f"always {guess}: {result}")


@main.command()
@_option("--from", "start", type=FILE, required=True, help="The run or checkpoint to write with.")
@_option("--prompt", required=True, help="How the text begins.")
@_option("--count", default=200, type=click.IntRange(1), help="Characters to write.")
@_option("--temperature", default=1.0, type=click.FloatRange(0), help="0 is greedy.")
@_option("--top-k", type=click.IntRange(1), help="Draw from the k most likely only.")
@_option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Draw from the likely share.")
@_UNKNOWN
@_MACHINE[0]
@_MACHINE[1]
@_JSON
def generate(
    start: Path, prompt: str, count: int, temperature: float, top_k: int | None,
    top_p: float | None, unknown: str, seed: int, device: str, as_json: bool,
) -> None:  # fmt: skip
    """Let a model continue a text."""
    import numpy as np

    from tinyattn.data.text import DataError
    from tinyattn.models import generate as write
    from tinyattn.tasks.runs import load_run

    trained = load_run(start, device=_device(device))
    ids = trained.vocabulary.encode(prompt, unknown=unknown)
    if not len(ids):
        raise DataError("the prompt is empty; give at least one character the model knows")
    text = trained.vocabulary.decode(ids)
    if not as_json:
        click.echo(text, nl=False)
    rng = np.random.default_rng(seed)
    for (i,) in write(trained.model, ids[None], count, temperature=temperature, top_k=top_k,
                      top_p=top_p, rng=rng):  # fmt: skip
        text += trained.vocabulary.decode([i])
        if not as_json:
            click.echo(text[-1], nl=False)
    if as_json:
        _print_json({"text": text})
    else:
        click.echo()


@main.command()
@_option("--from", "start", type=FILE, help="Describe this run or checkpoint.")
@_option("--recipe", help="Print this recipe's settings.")
@_JSON
def info(start: Path | None, recipe: str | None, as_json: bool) -> None:
    """What is installed; or what is in a run; or a recipe's settings."""
    from tinyattn.tasks.recipe import load_recipe, to_toml

    if recipe:
        tables = load_recipe(recipe).tables()
        tables["model"].pop("vocabulary")
        if as_json:
            _print_json(tables)
        else:
            click.echo(to_toml(tables), nl=False)
        return
    facts = _about_run(start) if start else _about_machine()
    if as_json:
        _print_json(facts)
    else:
        for key, value in facts.items():
            click.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


def _about_run(start: Path) -> dict[str, Any]:
    from tinyattn.tasks.runs import load_run

    trained = load_run(start)
    return {
        "stage": trained.about["stage"],
        "step": trained.about["step"],
        "steps": trained.about["steps"],
        "seed": trained.about["seed"],
        "parameters": trained.model.parameter_count(),
        "characters": len(trained.vocabulary),
        **{f"model.{k}": v for k, v in trained.about["model"].items()},
    }


def _about_machine() -> dict[str, Any]:
    import os

    import numpy as np
    from threadpoolctl import threadpool_info

    from tinyattn.backend import get_device
    from tinyattn.report import curves
    from tinyattn.tasks.recipe import recipe_names

    devices = ["cpu"]
    try:
        get_device("cuda")
        devices.append("cuda")
    except RuntimeError as error:
        cuda = str(error)
    else:
        cuda = "ready"
    blas = [f"{i['internal_api']} {i.get('version')}" for i in threadpool_info()
            if i["user_api"] == "blas"]  # fmt: skip
    return {
        "version": __version__,
        "devices": devices,
        "backend": f"numpy {np.__version__}",
        "threads": os.cpu_count() or 1,
        "blas": ", ".join(blas) or "unknown",
        "cuda": cuda,
        "pictures": "matplotlib" if curves.available() else "no: pip install 'tinyattn[plot]'",
        "recipes": recipe_names(),
    }


def _open(table: str, options: dict[str, Any], extra: dict[str, Any]) -> tuple[Any, Any]:
    """The recipe and the run folder that a training command's options ask for."""
    from tinyattn.tasks.knowledge import RunOptions
    from tinyattn.tasks.recipe import load_recipe
    from tinyattn.tasks.runs import open_run

    overrides = _overrides(options["sets"]) | extra
    for name in ("epochs", "steps"):
        if options[name] is not None:
            overrides[f"{table}.{name}"] = options[name]
    recipe = load_recipe(options["recipe"], config=options["config"], overrides=overrides)
    device = _device(options["device"])
    folder = open_run(options["out"], recipe, overwrite=options["overwrite"],
                      resume=options["resume"])  # fmt: skip
    return recipe, RunOptions(folder, seed=options["seed"], device=device,
                              workers=options["workers"], resume=options["resume"])  # fmt: skip


def _overrides(sets: tuple[str, ...]) -> dict[str, Any]:
    """`TABLE.KEY=VALUE` as TOML would read the value; a bare word is a string."""
    out = {}
    for item in sets:
        key, equals, value = item.partition("=")
        if not equals or "." not in key:
            raise click.BadParameter(f"want TABLE.KEY=VALUE; got {item!r}", param_hint="--set")
        try:
            out[key] = tomllib.loads(f"v = {value}")["v"]
        except tomllib.TOMLDecodeError:
            out[key] = value
    return out


def _device(name: str) -> str:
    from tinyattn.backend import get_device

    try:
        return get_device(name).name
    except RuntimeError as error:
        raise DeviceMissing(str(error)) from error


def _finish(folder: Path, title: str, as_json: bool) -> None:
    """Draw the curves of a finished run and say what it came to."""
    from tinyattn.report import curves
    from tinyattn.training.loop import METRICS, read_metrics

    entries = read_metrics(folder / METRICS)
    if curves.available() and len(entries) > 1:
        curves.save_curves(entries, folder / "curves.png", title)
    last = entries[-1]
    if as_json:
        _print_json({"folder": str(folder), **last})
        return
    validation = f", validation {last['validation']:.3f}" if "validation" in last else ""
    click.echo(f"{title}: step {last['step']}, loss {last['loss']:.3f}{validation}, "
               f"{last['seconds']:.0f} s; the run is in {folder}")  # fmt: skip


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


class Progress:
    """A bar on stderr with loss, learning rate, tokens a second and the time left."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._tqdm = tqdm
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def watch(self, run: Any) -> Any:
        from dataclasses import replace

        return replace(run, on_start=self.start, on_step=self.step)

    def say(self, what: str) -> None:
        self._what = what

    def start(self, done: int, total: int) -> None:
        self.__exit__()
        self._bar = self._tqdm(total=total, initial=done, desc=self._what or None, disable=None,
                               dynamic_ncols=True)  # fmt: skip

    def step(self, entry: dict[str, Any]) -> None:
        self._bar.set_postfix_str(
            f"loss {entry['loss']:.3f} rate {entry['rate']:.2g} "
            f"{entry['tokens_per_second']:,} tokens/s",
            refresh=False,
        )
        self._bar.update()

    def advance(self, count: int) -> None:
        self._bar.update(count)
