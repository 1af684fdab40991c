"""Wing, trace: all measures of a model, as one dictionary.

Where does the birthplace come from? Each measure of this folder answers in another way. Their
results agree if the answer is robust: a head that adds much to the logit should also be one whose
loss hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyattn.nn import NoActivation
from tinyattn.tasks.knowledge import Trained
from tinyattn.trace import knockout
from tinyattn.trace.attribution import attribution
from tinyattn.trace.cases import Cases, run
from tinyattn.trace.edit import together, try_edits
from tinyattn.trace.lens import lens
from tinyattn.trace.patching import patching
from tinyattn.trace.probe import probe
from tinyattn.workers import one_thread

Found = dict[str, Any]
Begin = Callable[[str, int], Callable[[int], None]]
"""Begins a progress bar: (what, number of steps) -> a function to call with the steps done."""


def no_bar(what: str, total: int) -> Callable[[int], None]:
    """No progress bar."""
    return lambda count: None


def _lens(trained: Trained, cases: Cases, **_: Any) -> Any:
    return [row._asdict() for row in lens(trained.model, cases)]


def _attribution(trained: Trained, cases: Cases, **_: Any) -> Any:
    found = attribution(trained.model, cases)
    error = found.logits - cases.at_start(run(trained.model, cases.ids))[
        np.arange(len(cases.ids)), cases.first
    ]  # fmt: skip
    return {
        "logit": float(found.logits.mean()), "largest_error": float(np.abs(error).max()),
        "terms": [{"name": name, "logit": float(term), "lead": float(lead)} for name, term, lead
                  in zip(found.names, found.terms.mean(0), found.leads.mean(0), strict=True)],
    }  # fmt: skip


def _heads(trained: Trained, cases: Cases, **_: Any) -> Any:
    model = trained.model
    rows = [*knockout.heads(model, cases), *knockout.feedforwards(model, cases)]
    return [row._asdict() for row in rows]


def _neurons(trained: Trained, cases: Cases, begin: Begin, **_: Any) -> Any:
    layers = trained.model.layers
    total = sum(layer.feedforward.expand.weight.shape[1] for layer in layers)
    lost = knockout.neurons(trained.model, cases, begin("neurons", total))
    return [{"name": f"layers.{i}.feedforward", "neurons": len(row),
             "none_lost": int((row == 0).sum()), "most_lost": int(row.max()), "lost": row.tolist()}
            for i, row in enumerate(lost)]  # fmt: skip


def _edges(trained: Trained, cases: Cases, **_: Any) -> Any:
    found = knockout.edges(trained.model, cases)
    return [{"name": name, "query": query, "key": key, "lost": lost}
            for name, losses in found.items() for (query, key), lost in losses.items()]  # fmt: skip


def _patching(trained: Trained, cases: Cases, seed: int, **_: Any) -> Any:
    return [row._asdict() for row in patching(trained.model, cases, seed=seed)]


def _probe(trained: Trained, cases: Cases, known: Cases, seed: int, **_: Any) -> Any:
    return [row._asdict() for row in probe(trained.model, known, cases, seed=seed)]


def _edits(
    trained: Trained, cases: Cases, known: Cases, seed: int, begin: Begin, edits: int, **_: Any
) -> Any:
    found = try_edits(trained, cases, known, count=edits, seed=seed, on_step=begin("edits", edits))
    rows = [{"form": form, "before": row.before.as_dict(), "moved": row.moved.as_dict(),
             "kept": row.kept.as_dict()} for form, row in found.items()]  # fmt: skip
    moved, kept = (together([getattr(row, name) for form, row in found.items() if form])
                   for name in ("moved", "kept"))  # fmt: skip
    return {
        "moved": rows[0]["moved"],
        "kept": rows[0]["kept"],
        "reworded": rows[1:],
        "moved_in_words": moved.as_dict(),
        "kept_in_words": kept.as_dict(),
    }


PARTS: dict[str, Callable[..., Any]] = {
    "lens": _lens, "attribution": _attribution, "heads": _heads, "neurons": _neurons,
    "edges": _edges, "patching": _patching, "probe": _probe, "edits": _edits,
}  # fmt: skip
"""The measures by the names that users write, in the order of the report."""


def trace(
    trained: Trained,
    cases: Cases,
    known: Cases,
    *,
    parts: Sequence[str] = tuple(PARTS),
    edits: int = 24,
    seed: int = 0,
    begin: Begin = no_bar,
) -> Found:
    """Measure a model in several ways.

    Args:
        cases: questions that the model is judged on.
        known: the questions of the finetuning; the probe and the edits use them.
        parts: names of PARTS.
        edits: number of people that are moved, each in a copy of the model.
        seed: seed of the pairs, of the control and of the edits.
        begin: begins a progress bar.
    Returns: the number of cases, those correct, and the result of each part; a part that this
        attention type does not allow has {"refused": reason}.
    """
    with one_thread(np):  # small products: two threads of BLAS would wait for each other
        correct = cases.correct(run(trained.model, cases.ids))
        found: Found = {"cases": len(cases.ids), "correct": int(correct.sum())}
        for part in parts:
            try:
                found[part] = PARTS[part](
                    trained, cases, known=known, seed=seed, begin=begin, edits=edits
                )
            except NoActivation as error:
                found[part] = {"refused": str(error)}
    return found
