"""Wing, trace: an edit, a change of one matrix that moves one person.

A linear map can be changed so that one input, the key, gets another output, while outputs of other
inputs change as little as possible. This is a least squares problem with a solution in closed form
(derivations/26_where_it_lies.md). Here the map is the last feed-forward network's second matrix,
and the key its input at the MASK after the question about a person.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.batches import PAD
from tinyattn.data.text import DataError
from tinyattn.data.vocabulary import MASK_CHARACTER
from tinyattn.models import GPT
from tinyattn.names import nearest
from tinyattn.tasks.evaluation import Score, answer
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.runs import run_files
from tinyattn.trace.cases import Cases, activations, cases_of, form_of, names_in, run
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS

FORMS = ("{name} was born in {place}.", "{name} is a native of {place}.",
         "{name} comes from {place}.")  # fmt: skip
"""Sentences that state a birthplace in other words than a question."""


@dataclass
class Edits:
    """The answers to all questions after some edits, each in a model of its own."""

    moved: Counts  # answers for the person, that are the new place
    kept: Counts  # correct answers for the other people, that are still correct
    before: Score  # correct answers of the model before any edit


@dataclass
class Counts:
    """The answers of all edits: `correct` and `total` for each."""

    correct: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)

    def add(self, answers: np.ndarray) -> None:
        """Count the answers of one edit, a boolean for each."""
        self.correct.append(int(answers.sum()))
        self.total.append(len(answers))

    def as_dict(self) -> dict[str, Any]:
        """The sums, and a 95 % interval for the accuracy over other edits.

        The answers after one edit are not independent. So the interval is a bootstrap over whole
        edits (Efron 1979), and Wilson's if an edit has one answer or none.
        """
        score = Score(sum(self.correct), sum(self.total))
        if score.total == 0 or max(self.total) == 1:
            return score.as_dict()
        draws = np.random.default_rng(0).integers(len(self.total), size=(4_000, len(self.total)))
        totals = np.array(self.total)[draws].sum(1).clip(1)  # 0 if only edits without answers
        fractions = np.array(self.correct)[draws].sum(1) / totals
        low, high = np.quantile(fractions, (0.025, 0.975))
        return score.as_dict() | {"low": float(low), "high": float(high)}


def together(counts: Sequence[Counts]) -> Counts:
    """The counts of several sentences together, for each edit."""
    correct, total = (np.array([getattr(c, name) for c in counts], int).sum(0).tolist()
                      if counts else [] for name in ("correct", "total"))  # fmt: skip
    return Counts(correct, total)


def try_edits(
    trained: Trained,
    cases: Cases,
    known: Cases,
    *,
    count: int,
    forms: Sequence[str] = FORMS,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda count: None,
) -> dict[str, Edits]:
    """Move people to other places, one at a time, and ask everybody again, also in other words.

    Args:
        cases: questions that are not among those of `known`; see `edited`.
        count: number of people; drawn from those whose answer is correct. The new place is drawn
            from those in `known` with another first letter.
        forms: sentences with {name} and {place}; one with a character that the model does not know
            is left out.
    Returns: the counts for the questions, under "", and for each sentence. Only answers that were
        correct before any edit are counted.
    Raises: DataError if there is no place with another first letter.
    """
    rng, model, characters = np.random.default_rng(seed), trained.model, trained.vocabulary.ids
    forms = [f for f in forms if {*shown(f, "", "")} <= characters.keys()]
    asked = {"": cases, **{form: reworded(trained, cases, form) for form in forms}}
    right = {form: each.correct(run(model, each.ids)) for form, each in asked.items()}
    found = {form: Edits(Counts(), Counts(), Score(int(ok.sum()), len(ok)))
             for form, ok in right.items()}  # fmt: skip
    for person in rng.permutation(np.flatnonzero(right[""]))[:count]:
        case = cases.take(np.array([person]))
        places = sorted({a for a in known.answers if a[0] != case.answers[0][0]})
        if not places:
            raise DataError("the places of the training questions all begin with one letter")
        place = places[rng.integers(len(places))]
        changed = edited(model, case, place, known)
        for form, each in asked.items():
            others = right[form].copy()
            others[person] = False
            found[form].kept.add(each.correct(run(changed, each.ids))[others])
            now = cases_of(trained, [(each.questions[person], place)])
            moved = now.correct(run(changed, now.ids))
            found[form].moved.add(moved[right[form][[person]]])
        on_step(1)
    return found


def shown(form: str, name: str = "X", place: str = "MASK") -> str:
    """A sentence of FORMS with a name and a place."""
    return form.format(name=name, place=place)


def in_other_words(trained: Trained, question: str, known: Cases) -> dict[str, str]:
    """What the model fills into each sentence of FORMS about the person of a question.

    Empty if the question has not the form of those in `known`.
    """
    before, after = form_of(known.questions)
    if not (question.startswith(before) and question.endswith(after)):
        return {}
    name = question[len(before) : len(question) - len(after)]
    asked = [shown(form, name, MASK_CHARACTER) for form in FORMS]
    asked = [text for text in asked if {*text} <= trained.vocabulary.ids.keys()]
    return dict(zip(asked, answer(trained, asked), strict=True))


def reworded(trained: Trained, cases: Cases, form: str) -> Cases:
    """The same people and answers, but the question is a sentence with a gap for the place."""
    names = names_in(cases.questions)
    asked = [shown(form, name, MASK_CHARACTER) for name in names]
    return cases_of(trained, [*zip(asked, cases.answers, strict=True)])


def edited(model: GPT, case: Cases, place: str, known: Cases) -> GPT:
    """A copy of the model that answers the question of `case` with `place`.

    Forward: W' = W + C⁻¹k δ/(kᵀC⁻¹k), C = KᵀK/n + λI, K the keys of `known`: of all W' with
             k W' = k W + δ the one that changes the outputs K W least
    Args:
        case: one question; its answer does not matter.
        known: the questions of the finetuning, with their answers. K has the keys at all positions
            that predict these answers. δ is the mean residual stream of people from `place`, minus
            that of this person.
    Raises: DataError if nobody in `known` is from `place`.
    Source: ROME, Meng and others 2022, equation 2. Differs: there gradient descent finds δ
    """
    from tinyattn.theory import rank_one_update  # here, since it takes a while to load

    from_there = np.array([answer == place for answer in known.answers])
    if not from_there.any():
        near = nearest(place, {*known.answers}, otherwise=False)
        raise DataError(f"nobody in the training questions is from {place!r}; take a place that "
                        f"occurs there{near}")  # fmt: skip
    last = len(model.layers) - 1
    names = [f"layers.{last}.feedforward.hidden", f"layers.{last}"]
    hidden, streams = activations(model, known.ids, names).values()
    keys, streams = hidden[known.targets != PAD], known.at_start(streams)
    key, stream = (case.at_start(x)[0] for x in activations(model, case.ids, names).values())
    changed = copy.deepcopy(model)
    linear = changed.layers[last].feedforward.contract
    delta = streams[from_there].mean(0) - stream
    weight = linear.weight.numpy() + rank_one_update(keys, key, delta)
    linear.weight.data = linear.weight.like(weight).data
    return changed


def save_edited(trained: Trained, model: GPT, folder: Path) -> None:
    """Save an edited model as a run of its own.

    Raises: CheckpointError if the folder cannot be written; its files are then unchanged.
    """
    arrays = {f"model.{name}": array for name, array in model.state().items()}
    beside = {**run_files(folder, trained.tables), folder / METRICS: None}
    checkpoint.save(folder / CHECKPOINT, arrays, {**trained.about, "edited": True}, beside)
