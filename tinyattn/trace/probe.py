"""Wing, trace: a probe, where an answer can be read off linearly.

A probe is a linear classifier on one row of the residual stream, trained to name the answer. It is
fitted to some people and tested on others. If it is right for more of them than by chance, the
information is there. What chance gives is measured: the same probe after the answers of the fitted
people were shuffled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinyattn.data.text import DataError
from tinyattn.models import GPT
from tinyattn.trace.cases import NAMES, Cases, activations, letters_of, parts_of
from tinyattn.trace.lens import streams

PENALTIES = 10.0 ** np.arange(-3, 4)
"""The ridge penalties that are tried, as multiples of the mean eigenvalue."""
TINY = 1e-12
"""In place of this mean where all rows are equal, as in the embedding of MASK."""
SHUFFLES = 5
"""Number of probes by which chance is measured."""


class ProbeRow(NamedTuple):
    """The probe at one position."""

    name: str  # of the residual stream
    position: str
    correct: int  # of the tested cases, with the best penalty for the fitted ones
    shuffled: float  # the mean of SHUFFLES probes whose fitted cases had shuffled answers
    total: int


def probe(model: GPT, fitted: Cases, tested: Cases, *, seed: int = 0) -> list[ProbeRow]:
    """Fit a probe at each position from the first letter of the name to MASK.

    Forward: W = argmin Σ|x W + b - onehot(answer)|² + λ|W|²; λ by leave-one-out on the fitted cases
    Source:  P-probing, Allen-Zhu and Li 2023. Differs: the embedding is not fitted too
    Raises:  DataError for fewer than two fitted cases
    """
    if len(fitted.ids) < 2:
        raise DataError(f"a probe needs at least two training questions; got {len(fitted.ids)}")
    rng, names, rows = np.random.default_rng(seed), streams(model), []
    places = sorted({*fitted.answers, *tested.answers})
    labels, wanted = (np.array([places.index(a) for a in c.answers]) for c in (fitted, tested))
    train, test = (activations(model, c.ids, names) for c in (fitted, tested))
    at_train, at_test = _positions(fitted), _positions(tested)
    for name in names:
        for position in at_test:
            if position not in at_train:
                continue
            (i, t), (j, s) = at_train[position], at_test[position]
            if min(len(i) / len(fitted.ids), len(j) / len(tested.ids)) < 0.5:
                continue  # too few names have this letter
            x, y = train[name][i, t], test[name][j, s]
            right = [
                int((ridge(x, given, y, len(places)) == wanted[j]).sum())
                for given in (labels[i], *(rng.permutation(labels[i]) for _ in range(SHUFFLES)))
            ]
            rows.append(ProbeRow(name, position, right[0], float(np.mean(right[1:])), len(j)))
    return rows


def ridge(x: np.ndarray, labels: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """The classes of the rows of y by ridge regression on the rows of x.

    The leave-one-out error of a penalty needs no second fit: with the hat matrix H, the residual
    of row i without it is r_i/(1 - H_ii).
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    mean = x.mean(0)
    u, size, v = np.linalg.svd(x - mean, full_matrices=False)
    onehot = np.eye(classes)[labels]
    centre = onehot.mean(0)
    best, weights = -1, np.zeros((x.shape[1], classes))
    for penalty in PENALTIES * max((size**2).mean(), TINY):
        factor = size**2 / (size**2 + penalty)
        fitted = (u * factor) @ (u.T @ (onehot - centre))
        hat = (u**2 * factor).sum(1) + 1 / len(x)
        left_out = onehot - (onehot - centre - fitted) / (1 - hat)[:, None]
        score = int((left_out.argmax(-1) == labels).sum())
        if score > best:
            best = score
            weights = (v.T * (size / (size**2 + penalty))) @ (u.T @ (onehot - centre))
    found: np.ndarray = ((y - mean) @ weights + centre).argmax(-1)
    return found


def _positions(cases: Cases) -> dict[str, Any]:
    """The positions of a name's letters, of the words after it and of MASK: (rows, columns)."""
    parts = parts_of(cases)
    found = {name: np.nonzero(mask) for name, mask in letters_of(parts).items()}
    names = [*parts]
    for name in names[names.index("first name") + 1 :]:
        if name not in (*NAMES, "answer"):  # the last token of the words after the name, and MASK
            place = np.where(parts[name], np.cumsum(parts[name], axis=-1), 0)
            ends = place == place.max(-1, keepdims=True)
            found[name] = np.nonzero(parts[name] & ends)
    return found
