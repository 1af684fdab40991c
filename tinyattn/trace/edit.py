"""Wing, trace: an edit, a change of one matrix that moves one person.

A linear map can be changed so that one input, the key, gets another output, while outputs of other
inputs change as little as possible. This is a least squares problem with a solution in closed form
(derivations/26_where_it_lies.md). Here the map is the last feed-forward network's second matrix,
and the key its input at the MASK after the question about a person.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyattn.data.batches import PAD
from tinyattn.data.text import DataError
from tinyattn.data.vocabulary import MASK_CHARACTER
from tinyattn.models import GPT
from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.runs import run_files
from tinyattn.trace.cases import Cases, activations, cases_of, names_in, run
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS

RIDGE = 1e-3
"""Added to the covariance of the keys, as a fraction of its mean eigenvalue: with fewer keys than
dimensions it has no inverse."""


FORMS = ("{name} was born in {place}.", "{name} is a native of {place}.",
         "{name} comes from {place}.")  # fmt: skip
"""Sentences that state a birthplace in other words than a question."""


@dataclass
class Edits:
    """What became of some edits, each in a model of its own."""

    moved: Score  # edits after which the question gets the new answer
    kept: Score  # correct answers for the other people that are still correct, of all edits
    reworded: dict[str, Reworded]  # by the sentence


@dataclass
class Reworded:
    """The answers if the place is to be filled into a sentence."""

    before: Score  # correct answers of the model before any edit, over all cases
    moved: Score  # edits after which the sentence gets the new place, of those correct before
    kept: Score  # as in Edits


def try_edits(
    trained: Trained,
    cases: Cases,
    known: Cases,
    *,
    count: int,
    forms: Sequence[str] = FORMS,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda count: None,
) -> Edits:
    """Move people to other places, one at a time, and ask everybody again.

    Args:
        cases: questions that are not among those of `known`; see `edited`.
        count: number of people; drawn from those whose answer is correct. The new place is drawn
            from those in `known` with another first letter.
        forms: sentences with {name} and {place}; one with a character that the model does not know
            is left out.
    """
    rng, model, known_characters = (
        np.random.default_rng(seed),
        trained.model,
        trained.vocabulary.ids,
    )
    forms = [f for f in forms if {*f.format(name="", place="")} <= known_characters.keys()]
    asked = [cases, *(reworded(trained, cases, form) for form in forms)]
    right = [each.correct(run(model, each.ids)) for each in asked]
    people = rng.permutation(np.flatnonzero(right[0]))[:count]
    moved, kept = np.zeros(len(asked), int), np.zeros(len(asked), int)
    for person in people:
        case = cases.take(np.array([person]))
        places = sorted({a for a in known.answers if a[0] != case.answers[0][0]})
        place = places[rng.integers(len(places))]
        changed = edited(model, case, place, known)
        for i, (each, ok) in enumerate(zip(asked, right, strict=True)):
            still = each.correct(run(changed, each.ids)) & ok
            kept[i] += np.delete(still, person).sum()
            if ok[person]:
                now = cases_of(trained, [(each.questions[person], place)])
                moved[i] += now.correct(run(changed, now.ids))[0]
        on_step(1)
    scores = [
        (Score(int(ok.sum()), len(ok)), Score(int(moved[i]), int(ok[people].sum())),
         Score(int(kept[i]), sum(int(np.delete(ok, p).sum()) for p in people)))
        for i, ok in enumerate(right)
    ]  # fmt: skip
    words = {form: Reworded(*s) for form, s in zip(forms, scores[1:], strict=True)}
    return Edits(scores[0][1], scores[0][2], words)


def reworded(trained: Trained, cases: Cases, form: str) -> Cases:
    """The same people and answers, but the question is a sentence with a gap for the place."""
    names = names_in(cases.questions)
    asked = [form.format(name=name, place=MASK_CHARACTER) for name in names]
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
    from_there = np.array([answer == place for answer in known.answers])
    if not from_there.any():
        raise DataError(f"nobody in the training questions is from {place!r}")
    last = len(model.layers) - 1
    names = [f"layers.{last}.feedforward.hidden", f"layers.{last}"]
    hidden, streams = activations(model, known.ids, names).values()
    keys, streams = hidden[known.targets != PAD], known.at_start(streams)
    key, stream = (case.at_start(x)[0] for x in activations(model, case.ids, names).values())
    changed = copy.deepcopy(model)
    linear = changed.layers[last].feedforward.contract
    delta = streams[from_there].mean(0) - stream
    weight = linear.weight.numpy() + rank_one(keys, key, delta)
    linear.weight.data = linear.weight.like(weight).data
    return changed


def rank_one(keys: np.ndarray, key: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The change D of a matrix with key D = delta that changes outputs of `keys` least.

    Forward: D = C⁻¹k δ/(kᵀC⁻¹k), C = KᵀK/n + λI, λ = RIDGE·tr(KᵀK/n)/F
    Shapes:  keys K (n, F), key k (F,), delta δ (C,) -> D (F, C)
    """
    covariance = keys.astype(np.float64).T @ keys / len(keys)
    covariance += RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    direction = np.linalg.solve(covariance, key.astype(np.float64))
    change: np.ndarray = np.outer(direction, delta) / (key @ direction)
    return change


def save_edited(trained: Trained, model: GPT, folder: Path) -> None:
    """Save an edited model as a run of its own.

    Raises: CheckpointError if the folder cannot be written; its files are then unchanged.
    """
    arrays = {f"model.{name}": array for name, array in model.state().items()}
    beside = {**run_files(folder, trained.tables), folder / METRICS: None}
    checkpoint.save(folder / CHECKPOINT, arrays, {**trained.about, "edited": True}, beside)
