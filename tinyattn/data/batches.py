"""Chapter 4: examples side by side.

A batch is a rectangle of ids, but texts have different lengths: the rest is filled with PAD. PAD is
never a target, and a causal model's real positions never look at what comes after them, so
computing on it is waste: a batch is sorted by length, split, and each part cut to its longest text.
Next: from gradients to better parameters (training/optimizers.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PAD = 0
"""The id that fills a batch up. It is no target and no part of any text."""


@dataclass(frozen=True)
class Batch:
    """Texts and what should follow each of their symbols.

    Shapes: inputs, targets (B, T) integers; a target PAD is not trained.
    """

    inputs: np.ndarray
    targets: np.ndarray

    @property
    def trained(self) -> int:
        """How many targets count."""
        return int(np.count_nonzero(self.targets != PAD))

    def split(self, parts: int) -> list[Batch]:
        """The rows, longest first, in at most `parts` parts, each cut to its longest row.

        Nothing that is trained, and nothing that it looks at, is lost. The largest part has as
        few positions as can be, so that workers end at about the same time.
        """
        T = self.targets.shape[1]
        lengths = T - np.argmax((self.targets != PAD)[:, ::-1], axis=1)
        lengths[~(self.targets != PAD).any(axis=1)] = 1
        order = np.argsort(-lengths, kind="stable")
        longest_first = lengths[order].tolist()
        # The least room that suffices, found by halving: with more room there are never more parts.
        low, high = longest_first[0], longest_first[0] * len(order)
        while low < high:
            middle = (low + high) // 2
            if len(_cuts(longest_first, middle)) <= parts:
                high = middle
            else:
                low = middle + 1
        return [
            Batch(self.inputs[rows, : lengths[rows[0]]], self.targets[rows, : lengths[rows[0]]])
            for rows in np.split(order, _cuts(longest_first, low)[1:])
        ]


def _cuts(lengths: list[int], room: int) -> list[int]:
    """Where parts begin, if each takes as many of the falling lengths as its room holds."""
    cuts = [0]
    while (taken := room // lengths[cuts[-1]]) < len(lengths) - cuts[-1]:
        cuts.append(cuts[-1] + taken)
    return cuts


def pad_rows(rows: list[np.ndarray], length: int) -> np.ndarray:
    """Ids of different lengths as one rectangle, filled with PAD: -> (B, length)."""
    out = np.full((len(rows), length), PAD, np.int64)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = ids
    return out
