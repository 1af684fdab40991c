"""Wing, commands: commands that use a trained model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import predictions_of, spare
from tinyattn.cli.streams import note
from tinyattn.cli.types import FILE, FOLDER, Amount, Choice, Real, typed
from tinyattn.data.files import check_writable
from tinyattn.data.text import DataError, read_answered, read_pairs, read_text
from tinyattn.models import generate as write
from tinyattn.noise import generator
from tinyattn.report.considered import as_table
from tinyattn.report.progress import Progress
from tinyattn.tasks import evaluation
from tinyattn.tasks.considered import as_taught, consider, pretrained_on
from tinyattn.tasks.conversion import convert as rewrite
from tinyattn.tasks.evaluation import check_questions, most_common, save_predictions, score
from tinyattn.tasks.knowledge import Trained, fingerprint
from tinyattn.tasks.runs import RUN_FILES, held_run, load_run
from tinyattn.threads import one_thread
from tinyattn.training.checkpoint import write_errors


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--from", "start", type=FILE, default="runs/finetune", help="The run or checkpoint.")
@opt.option("--predictions", type=FILE, help="Where to write them; by default into the run folder.")
@opt.option("--report", is_flag=True, help="Say what the answers are made of; needs --train.")
@opt.option("--train", type=FILE, help="For --report: the pairs that the model was finetuned on.")
@opt.option("--corpus", type=FILE, help="For --report: the text it was pretrained on, if it was.")
@opt.UNKNOWN
@opt.DEVICE
@opt.WORKERS
@opt.JSON
def evaluate(
    pairs: Path, start: Path, predictions: Path | None, report: bool, train: Path | None,
    corpus: Path | None, unknown: str, device: str, workers: int | None,
) -> None:  # fmt: skip
    """Ask a model the questions in PAIRS, and count exact matches where answers are given.

    With --report, tell invented places from places that training texts have, the accuracy for rare
    and frequent places, and whether wrong answers go by the name. What counts as training text must
    be named: leave --corpus out for a model that was not pretrained.

    \b
    tinyattn evaluate birth_dev.tsv
    tinyattn evaluate birth_dev.tsv --report --train birth_places_train.tsv --corpus wiki.txt
    """
    if report and train is None:
        raise click.UsageError("--report needs --train PAIRS, those that the model was finetuned "
                               "on, and --corpus FILE if it was pretrained")  # fmt: skip
    if not report and (train or corpus):
        raise click.UsageError("--train and --corpus are for --report; give that too")
    path = predictions or predictions_of(start)
    spare("--predictions", path, {"the questions": pairs, "the run of --from": start,
                                  "the pairs of --train": train,
                                  "the text of --corpus": corpus})  # fmt: skip
    asked = read_pairs(pairs)
    if predictions is None:
        check_questions(pairs, asked)
    texts = _read_texts(pairs, train, corpus) if train else None
    trained = load_run(start, device=opt.open_device(device, workers))
    texts = _checked(trained, texts) if texts else None
    with write_errors():
        check_writable(path)
    with Progress() as bar:
        bar.start(0, len(asked))
        answers = evaluation.answer(trained, [q for q, _ in asked], unknown=unknown,
                                    workers=workers, on_answers=bar.advance)  # fmt: skip
    save_predictions(path, answers)
    opt.note_dropped(trained.vocabulary, [q for q, _ in asked])
    if cut := sum(len(q) >= trained.model.longest for q, _ in asked):
        note(f"{cut} of {len(asked)} questions are longer than the model's context of "
             f"{trained.model.longest}, which reads only their ends")  # fmt: skip
    if trained.about["stage"] == "pretrain" and not trained.about.get("questions"):
        note(f"{start} was pretrained, but never taught to answer; finetune it first")
    opt.note_forms({pairs: asked, train: texts and texts[1], corpus: texts and texts[2]})
    opt.note_alike(answers, [a or "" for _, a in asked])
    result = score(answers, [a or "" for _, a in asked]) if asked[0][1] is not None else None
    found = consider(texts[0], answers, *texts[1:]) if texts else None
    facts = result.as_dict() if result else {"total": len(asked)}
    facts |= {"predictions": str(path)} | ({"report": found.as_dict()} if found else {})
    lines = [f"correct: {result}" if result else f"{len(asked)} questions have no answers",
             f"predictions: {path}"]  # fmt: skip
    if found:
        lines += [f"training texts: {f'{corpus}, ' if corpus else ''}{train}", as_table(found)]
    opt.show(facts, *lines)


Texts = tuple[list[tuple[str, str]], list[tuple[str, str]], str]


def _read_texts(pairs: Path, train: Path, corpus: Path | None) -> Texts:
    """The pairs that are asked, those that were learnt, and the corpus: all that a report reads.

    Raises: DataError, before the model is asked anything.
    """
    why = ", which --report needs to tell right from wrong, and known places from new ones"
    return read_answered(pairs, why), read_answered(train, why), read_text(corpus) if corpus else ""


def _checked(trained: Trained, texts: Texts) -> Texts:
    """The texts, with pairs as they were learnt; refused or remarked on if they are not the run's.

    Raises: click.UsageError if the model was pretrained, and its text is not there.
    """
    asked, train, corpus = texts
    train, same = as_taught(train, trained)
    read = pretrained_on(trained)
    if read and not corpus:
        raise click.UsageError("the model was pretrained; --report needs that text: --corpus FILE")
    if corpus and not read:
        note("the model was not pretrained, so it has not read --corpus")
    elif corpus and fingerprint(corpus) != read:
        note("the model was pretrained on another text than that of --corpus; what is said of seen "
             "and invented places is about this one")  # fmt: skip
    answers = trained.about["stage"] == "finetune" or trained.about.get("questions")
    if answers and not same:
        note("the model was taught by other pairs than those of --train; what is said of names is "
             "about these")  # fmt: skip
    return asked, train, corpus


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--answer", "guess", type=typed, metavar="PLACE",
        help="What to answer every time; or use --train.")  # fmt: skip
@opt.option("--train", type=FILE, help="Answer with the most common place of these pairs.")
@opt.JSON
def baseline(pairs: Path, guess: str | None, train: Path | None) -> None:
    """Score a rule that knows nothing: the same answer every time.

    \b
    tinyattn baseline birth_dev.tsv --answer London
    tinyattn baseline birth_dev.tsv --train birth_places_train.tsv
    """
    if (guess is None) == (train is None):
        raise click.UsageError("give either --answer PLACE or --train PAIRS")
    asked = read_answered(pairs, "; there is nothing to score")
    if train is not None:
        known = read_answered(train)
        guess = most_common([answer for _, answer in known])
        opt.note_forms({pairs: asked, train: known})
    answers = [answer for _, answer in asked]
    guesses = [str(guess).rstrip()] * len(answers)  # space at the end does not count
    opt.note_alike(guesses, answers)
    result = score(guesses, answers)
    opt.show({"answer": guess, **result.as_dict()}, f"always {guess}: {result}")


@click.command()
@opt.option("--from", "start", type=FILE, default="runs/pretrain", help="The run or checkpoint.")
@opt.option("--prompt", type=typed, metavar="TEXT", required=True, help="How the text begins.")
@opt.option("--count", default=200, type=Amount(), help="Characters to write.")
@opt.option("--temperature", default=1.0, type=Real(0), help="0 is greedy.")
@opt.option("--top-k", type=Amount(), help="Draw from the k most likely only.")
@opt.option("--top-p", type=Real(0, 1, min_open=True), help="Draw from the likely share.")
@opt.UNKNOWN
@opt.SEED
@opt.DEVICE
@opt.JSON
def generate(
    start: Path, prompt: str, count: int, temperature: float, top_k: int | None,
    top_p: float | None, unknown: str, seed: int, device: str,
) -> None:  # fmt: skip
    """Let a model continue a text."""
    if temperature == 0 and (top_k or top_p):
        raise click.UsageError("--top-k and --top-p choose what is drawn from; --temperature 0 "
                               "draws nothing")  # fmt: skip
    trained = load_run(start, device=opt.open_device(device))
    ids = trained.vocabulary.encode(prompt, unknown=unknown)
    if not len(ids):
        raise DataError("the prompt is empty; give at least one character the model knows")
    opt.note_dropped(trained.vocabulary, [prompt])
    text, shown = trained.vocabulary.decode(ids), not opt.as_json()
    click.echo(text * shown, nl=False)
    rng = generator(seed)
    with one_thread(np):
        for (i,) in write(trained.model, ids[None], count, temperature=temperature, top_k=top_k,
                          top_p=top_p, rng=rng):  # fmt: skip
            text += trained.vocabulary.decode([i])
            click.echo(text[-1] * shown, nl=False)
    opt.show({"text": text}, "")  # all but the last newline is there


@click.command()
@opt.option("--from", "start", type=FILE, default="runs/pretrain", help="The run or checkpoint.")
@opt.option("--to", type=Choice(["bilinear", "multihead"]), default="bilinear",
        help="What its attention becomes.")  # fmt: skip
@opt.option("--out", type=FOLDER, required=True, help="The run folder to write.")
@opt.OVERWRITE
@opt.JSON
def convert(start: Path, to: str, out: Path, overwrite: bool) -> None:
    """Rewrite a multi-head model with one matrix for two in every head, or back.

    \b
    tinyattn convert --from runs/pretrain --out runs/merged
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
