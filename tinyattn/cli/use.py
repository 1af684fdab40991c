"""Wing, commands: questions to a finetuned model, and their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import predictions_of, spare
from tinyattn.cli.streams import note
from tinyattn.cli.types import FILE, Amount, typed
from tinyattn.data.files import check_writable
from tinyattn.data.text import read_answered, read_pairs, read_text
from tinyattn.report.error_report import as_table
from tinyattn.report.progress import Progress
from tinyattn.report.text_table import Column, table
from tinyattn.tasks import evaluation
from tinyattn.tasks.asking import BEAM
from tinyattn.tasks.asking import ask as ask_model
from tinyattn.tasks.error_analysis import analyse_errors, as_taught, pretrained_on
from tinyattn.tasks.evaluation import check_questions, most_common, save_predictions, score
from tinyattn.tasks.knowledge import Trained, fingerprint
from tinyattn.tasks.runs import load_run
from tinyattn.training.checkpoint import write_errors

WRONG = [Column(name, f"{{{name}}}") for name in ("question", "expected", "answer")]


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--from", "start", type=FILE, default="runs/finetune", help="Run or checkpoint to ask.")
@opt.option("--predictions", type=FILE, show_default="predictions.tsv in the run folder",
            help="File for the answers, one per line.")  # fmt: skip
@opt.option("--wrong", is_flag=True, help="Print the wrong answers beside the expected ones.")
@opt.option("--report", is_flag=True, help="Print an analysis of the errors; needs --train.")
@opt.option("--train", type=FILE, help="For --report: the pairs of the finetuning.")
@opt.option("--corpus", type=FILE, help="For --report: the corpus of the pretraining, if any.")
@opt.UNKNOWN
@opt.DEVICE
@opt.WORKERS
@opt.JSON
def evaluate(
    pairs: Path, start: Path, predictions: Path | None, wrong: bool, report: bool,
    train: Path | None, corpus: Path | None, unknown: str, device: str, workers: int | None,
) -> None:  # fmt: skip
    """Count a model's correct answers to the questions in PAIRS.

    The model should be finetuned. PAIRS is a UTF-8 text file. Each line has a question, one tab and
    the expected answer, such as

    \b
      Where was Ada King born?<tab>London

    An answer is correct if it is exactly the expected one. If the file has questions only, the
    answers are written to --predictions, and not counted. For 100 questions this takes two
    seconds. A good result for the commands of `tinyattn --help` is 93 correct answers of 100;
    `tinyattn baseline` gives 19.

    With --report, count invented answers, correct answers for rare and frequent places, and wrong
    answers that are the birthplace of a person with a similar name. A run does not contain its
    training texts, so name them: --train, and --corpus if the model was pretrained.

    \b
    tinyattn evaluate birth_dev.tsv
    tinyattn evaluate runs/world/birth_dev.tsv --wrong
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
    questions = read_answered(pairs, "; --wrong needs them") if wrong else read_pairs(pairs)
    if predictions is None:
        check_questions(pairs, questions)
    texts = _read_texts(pairs, train, corpus) if train else None
    trained = load_run(start, device=opt.open_device(device, workers))
    texts = _checked(trained, texts) if texts else None
    with write_errors():
        check_writable(path)
    with Progress() as bar:
        bar.start(0, len(questions))
        answers = evaluation.answer(trained, [q for q, _ in questions], unknown=unknown,
                                    workers=workers, on_answers=bar.advance)  # fmt: skip
    save_predictions(path, answers)
    opt.note_dropped(trained.vocabulary, [q for q, _ in questions])
    if cut := sum(len(q) >= trained.model.max_length for q, _ in questions):
        note(f"{cut} of {len(questions)} questions are longer than the model's context of "
             f"{trained.model.max_length} tokens; it gets only their ends")  # fmt: skip
    _note_untaught(trained, start)
    opt.note_forms({pairs: questions, train: texts and texts[1], corpus: texts and texts[2]})
    opt.note_alike(answers, [a or "" for _, a in questions])
    result = (
        score(answers, [a or "" for _, a in questions]) if questions[0][1] is not None else None
    )
    found = analyse_errors(texts[0], answers, *texts[1:]) if texts else None
    facts: dict[str, Any] = result.as_dict() if result else {"total": len(questions)}
    facts |= {"predictions": str(path)} | ({"report": found.as_dict()} if found else {})
    lines = [f"correct: {result}" if result else f"{len(questions)} questions have no answers",
             f"predictions: {path}"]  # fmt: skip
    if wrong:
        facts["wrong"] = [
            {"question": question, "expected": place, "answer": given}
            for (question, place), given in zip(questions, answers, strict=True)
            if given != place
        ]
        lines += table(facts["wrong"], WRONG) if facts["wrong"] else ["no wrong answers"]
    if found:
        lines += [f"training texts: {f'{corpus}, ' if corpus else ''}{train}", as_table(found)]
    opt.show(facts, *lines)


def _note_untaught(trained: Trained, start: Path) -> None:
    """Print a note if a model has not been trained to answer questions."""
    if trained.about["stage"] == "pretrain" and not trained.about.get("questions"):
        of_text = trained.recipe.data.objective == "next"
        what = "it continues a text: use `generate`" if of_text else "use `finetune` first"
        note(f"{start} was never taught to answer questions; {what}")


Texts = tuple[list[tuple[str, str]], list[tuple[str, str]], str]


def _read_texts(pairs: Path, train: Path, corpus: Path | None) -> Texts:
    """The pairs to ask, the pairs of the finetuning, and the corpus.

    Raises: DataError, before the model answers a question.
    """
    why = ", which --report needs to count correct answers and known places"
    return read_answered(pairs, why), read_answered(train, why), read_text(corpus) if corpus else ""


def _checked(trained: Trained, texts: Texts) -> Texts:
    """The texts, with the training pairs as the model was given them.

    A note is printed if they are not the texts of the run.

    Raises: click.UsageError if the model was pretrained, but its corpus is not given.
    """
    questions, train, corpus = texts
    train, same = as_taught(train, trained)
    read = pretrained_on(trained)
    if read and not corpus:
        raise click.UsageError("the model was pretrained; --report needs its corpus: --corpus FILE")
    if corpus and not read:
        note("the model was not pretrained, so it was not trained on --corpus")
    elif corpus and fingerprint(corpus) != read:
        note("the model was pretrained on another text than that of --corpus; the counts of seen "
             "and invented places refer to --corpus")  # fmt: skip
    answers = trained.about["stage"] == "finetune" or trained.about.get("questions")
    if answers and not same:
        note("the model was finetuned on other pairs than those of --train; the counts of names "
             "refer to --train")  # fmt: skip
    return questions, train, corpus


@click.command()
@click.argument("question", type=typed)
@opt.option("--from", "start", type=FILE, default="runs/finetune", help="Run or checkpoint to ask.")
@opt.option("--count", default=5, type=Amount(1, BEAM),
            help=f"Answers to print, at most {BEAM}.")  # fmt: skip
@opt.UNKNOWN
@opt.DEVICE
@opt.JSON
def ask(question: str, start: Path, count: int, unknown: str, device: str) -> None:
    """Ask a finetuned model one QUESTION.

    The answer and the most likely other answers are printed with their probabilities, after about a
    second. Beam search finds the other answers. The model knows only questions in the words of its
    training questions. `tinyattn quickstart` ends with a question to try.

    \b
    tinyattn ask "Where was Ada King born?"
    tinyattn ask "Where was Ada King born?" --from runs/scratch --count 10
    """
    trained = load_run(start, device=opt.open_device(device))
    _note_untaught(trained, start)
    answers = ask_model(trained, question, count=count, unknown=unknown)
    opt.note_dropped(trained.vocabulary, [question])
    rows = [{"answer": one.text, "probability": one.probability} for one in answers]
    width = max(len(one.text) for one in answers)
    lines = [f"{one.text:{width}s}  {100 * one.probability:5.1f} %" for one in answers]
    opt.show({"question": question, "answers": rows}, *lines)


@click.command()
@click.argument("pairs", type=FILE)
@opt.option("--answer", "guess", type=typed, metavar="PLACE",
        help="Answer to give every time; or use --train.")  # fmt: skip
@opt.option("--train", type=FILE, help="Pairs whose most common answer to give every time.")
@opt.JSON
def baseline(pairs: Path, guess: str | None, train: Path | None) -> None:
    """Score a constant answer to the questions in PAIRS.

    A useful model is better than that. PAIRS has the format that `tinyattn evaluate` takes. On the
    data of `tinyattn world`, the most common place is the correct answer to 19 of 100 questions.

    \b
    tinyattn baseline birth_dev.tsv --answer London
    tinyattn baseline birth_dev.tsv --train birth_places_train.tsv
    """
    if (guess is None) == (train is None):
        raise click.UsageError("give either --answer PLACE or --train PAIRS")
    questions = read_answered(pairs, "; there is nothing to score")
    if train is not None:
        known = read_answered(train)
        guess = most_common([answer for _, answer in known])
        opt.note_forms({pairs: questions, train: known})
    answers = [answer for _, answer in questions]
    guesses = [str(guess).rstrip()] * len(answers)  # space at the end does not count
    opt.note_alike(guesses, answers)
    result = score(guesses, answers)
    opt.show({"answer": guess, **result.as_dict()}, f"always {guess}: {result}")
