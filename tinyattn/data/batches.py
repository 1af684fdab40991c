"""Chapter 4: batches and padding.

A batch is an array (B, T) of token ids. Sequences have different lengths, so the shorter ones are
filled up with PAD. PAD is never a target, and in a causal model no position attends to the PADs
after it: to compute on them is waste. So a batch is sorted by length and split, and each part is
cut to its longest sequence. Next: optimizers (training/optimizers.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PAD = 0
"""The id of padding. It is never a target, and never part of a sequence."""


@dataclass(frozen=True)
class Batch:
    """Sequences, and the token that should follow at each of their positions.

    Shapes: inputs, targets (B, T) integers; the loss ignores a target PAD.
    """

    inputs: np.ndarray
    targets: np.ndarray

    @property
    def trained(self) -> int:
        """How many targets there are that are not PAD."""
        return int(np.count_nonzero(self.targets != PAD))

    def split(self, parts: int) -> list[Batch]:
        """The rows, longest first, in at most `parts` parts, each cut to its longest row.

        No target is lost: a row is cut only after its last one. The largest part, rows × columns,
        is as small as possible, so that workers finish at about the same time.
        """
        T = self.targets.shape[1]
        lengths = T - np.argmax((self.targets != PAD)[:, ::-1], axis=1)  # to the last target
        lengths[~(self.targets != PAD).any(axis=1)] = 1  # no target; `_cuts` divides by lengths
        order = np.argsort(-lengths, kind="stable")
        longest_first = lengths[order].tolist()
        # Binary search for the smallest limit: a larger limit never makes more parts.
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


def _cuts(lengths: list[int], limit: int) -> list[int]:
    """Where parts begin, if each takes as many rows as `limit` positions allow, longest first."""
    cuts = [0]
    while (taken := limit // lengths[cuts[-1]]) < len(lengths) - cuts[-1]:
        cuts.append(cuts[-1] + taken)
    return cuts


def pad_rows(rows: list[np.ndarray], length: int) -> np.ndarray:
    """B rows of ids as one array, filled up with PAD. Shapes: -> (B, length)."""
    out = np.full((len(rows), length), PAD, np.int64)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = ids
    return out
