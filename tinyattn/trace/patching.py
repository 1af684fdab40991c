"""Wing, trace: patching, from which positions the answer comes.

Ask about person B, but replace some rows of the residual stream by those of person A. If the answer
becomes that of A, these rows contain what the model knows of A. Both names have words of the same
lengths, so that each letter of one has a letter of the other at its position.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from tinyattn.models import GPT
from tinyattn.nn import Hook
from tinyattn.trace.cases import NAMES, Cases, activations, letters_of, parts_of, put, run
from tinyattn.trace.lens import streams


class Patch(NamedTuple):
    """The effect of replacing one activation at some positions."""

    name: str  # of the activation
    part: str  # of the sequence
    gap: float  # fraction of the logit gap between the two runs that follows, 0 for none
    moved: int  # pairs in which the first token is that of A's answer
    pairs: int


def pairs_of(cases: Cases, correct: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Pairs of correct cases whose words have the same lengths, but whose answers begin otherwise.

    Returns: (pairs, 2) indices of cases, at most `most` pairs; each case is B once at most.
    """
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i in np.flatnonzero(correct):
        by_shape[tuple(map(len, cases.questions[i].split()))].append(int(i))
    found = []
    for same in by_shape.values():
        for b in same:
            others = [a for a in same if cases.first[a] != cases.first[b]]
            if others:
                found.append((others[rng.integers(len(others))], b))
    order = rng.permutation(len(found))[:most]
    return np.array(found, int).reshape(-1, 2)[order]


def patching(model: GPT, cases: Cases, *, seed: int = 0, most: int = 100) -> list[Patch]:
    """Patch each part of the question, and each letter of a name, in each residual stream.

    At the MASK also what the attention and the feed-forward network of each layer add.

    Forward: gap = Σ(d_patched - d_B)/Σ(d_A - d_B), d = logit of A's first token minus that of B's
    Source:  interchange interventions, Geiger and others 2021. Differs: causal tracing (Meng and
             others 2022) disturbs a run by noise and restores single states
    """
    correct = cases.correct(run(model, cases.ids))
    a, b = pairs_of(cases, correct, np.random.default_rng(seed), most).T
    if not len(a):
        return []
    of_a, of_b = cases.take(a), cases.take(b)
    parts = parts_of(of_b)
    letters = {name: m for name, m in letters_of(parts).items() if m.any(-1).mean() >= 0.5}
    whole = np.logical_or.reduce([parts[name] for name in NAMES if name in parts])
    parts |= {"name": whole, **letters}
    names = streams(model)
    adders = [f"layers.{i}.{part}" for i in range(len(model.layers)) if model.perceiver is None
              for part in ("attention", "feedforward")]  # fmt: skip
    values = activations(model, of_a.ids, names + adders)
    gap_a, gap_b = (_gap(run(model, c.ids), of_b, of_a.first) for c in (of_a, of_b))
    rows = []
    for name in names + adders:
        for part, mask in parts.items() if name in names else [("MASK", parts["MASK"])]:

            def hooks(at: slice, name: str = name, mask: np.ndarray = mask) -> dict[str, Hook]:
                return {name: put(values[name][at], mask[at])}

            logits = run(model, of_b.ids, hooks)
            gap = _gap(logits, of_b, of_a.first)
            rows_with = mask.any(-1)  # not every name has a seventh letter
            fraction = (gap - gap_b)[rows_with].sum() / (gap_a - gap_b)[rows_with].sum()
            first = of_b.at_start(logits).argmax(-1)
            moved = int((first == of_a.first)[rows_with].sum())
            rows.append(Patch(name, part, float(fraction), moved, int(rows_with.sum())))
    return rows


def _gap(logits: np.ndarray, cases: Cases, other: np.ndarray) -> np.ndarray:
    """The logit of the other first token minus that of the case's own, (N,)."""
    at, each = cases.at_start(logits), np.arange(len(other))
    found: np.ndarray = at[each, other] - at[each, cases.first]
    return found
