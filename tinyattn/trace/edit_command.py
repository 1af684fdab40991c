"""Wing, trace: the command that moves one person by a change of one matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import spare
from tinyattn.cli.types import FILE, FOLDER, typed
from tinyattn.data.text import read_answered
from tinyattn.report.text_table import Column, table
from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.runs import RUN_FILES, held_run, load_run
from tinyattn.trace.cases import cases_of, run
from tinyattn.trace.edit import edited, in_other_words, save_edited

COLUMNS = [Column("in other words", "{text}"), Column("before", "{before}"), Column("now", "{now}")]


@click.command()
@click.argument("question", type=typed)
@click.argument("place", type=typed)
@opt.option("--from", "start", type=FILE, default="runs/finetune",
            help="Run or checkpoint of a finetuned model.")  # fmt: skip
@opt.option("--train", type=FILE, default="runs/world/birth_train.tsv",
            help="Pairs of the finetuning, whose answers shall stay.")  # fmt: skip
@opt.option("--out", type=FOLDER, required=True, help="Run folder to write.")
@opt.OVERWRITE
@opt.JSON
def edit(
    question: str, place: str, start: Path, train: Path, out: Path, overwrite: bool
) -> None:  # fmt: skip
    """Change one matrix of a model so that QUESTION gets the answer PLACE.

    The matrix is the second one of the last feed-forward network. The change has rank one, in
    closed form, and affects the other questions of --train as little as possible. The model is
    written to a new run. The command also asks for the place in other words, before and after.
    This takes a second.

    \b
    tinyattn edit "Where was Nizmel Widmirv born?" Worvosk --out runs/edited
    tinyattn ask "Where was Nizmel Widmirv born?" --from runs/edited
    """
    spare("--out", out, {"the run of --from": start, "the pairs of --train": train}, RUN_FILES)
    taught = read_answered(train)
    trained = load_run(start)
    with held_run(out, overwrite=overwrite) as folder:
        case, known = cases_of(trained, [(question, place)]), cases_of(trained, taught)
        model = edited(trained.model, case, place, known)
        moved = bool(case.correct(run(model, case.ids))[0])
        before, after = (known.correct(run(m, known.ids)) for m in (trained.model, model))
        words = [in_other_words(replace(trained, model=m), question, known)
                 for m in (trained.model, model)]  # fmt: skip
        save_edited(trained, model, folder)
    kept = Score(int((before & after).sum()), int(before.sum()))
    done = f"the answer is {place} now" if moved else f"the answer is still not {place}"
    rows = [{"text": text, "before": words[0][text], "now": words[1][text]} for text in words[0]]
    opt.show({"folder": str(folder), "moved": moved, "kept": kept.as_dict(), "in_words": rows},
             f"{done}; correct answers to {train} that are still correct: {kept}",
             *(table(rows, COLUMNS) if rows else []),
             f"the run is in {folder}")  # fmt: skip
