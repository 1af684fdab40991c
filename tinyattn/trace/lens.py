"""Wing, trace: the lens, what each layer predicts already.

The head of a model turns the last residual stream into logits. The lens applies it to the residual
stream after each earlier layer, too. If the answer is there already, later layers only pass it on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tinyattn import ops
from tinyattn.graph import no_grad
from tinyattn.models import GPT
from tinyattn.tensor import Tensor
from tinyattn.trace.cases import Cases, activations


class LensRow(NamedTuple):
    """What one residual stream predicts, at the MASK after the question."""

    name: str  # of the activation
    correct: int  # cases in which the first token of the answer is the most likely one
    probability: float  # of this token, the mean over the cases


def streams(model: GPT) -> list[str]:
    """The names of the residual streams that have a row for each position of the sequence."""
    last = len(model.layers) - 1
    between = [] if model.perceiver is not None else range(last)  # else rows of latents
    return ["embedding", *(f"layers.{i}" for i in between), f"layers.{last}"]


def logits_of(model: GPT, x: np.ndarray) -> np.ndarray:
    """The logits (.., V) from rows (.., C) of the last residual stream."""
    with no_grad():
        stream = Tensor(x, dtype=model.head.weight.dtype, device=model.device)
        return model.head(model.norm(stream)).numpy()


def lens(model: GPT, cases: Cases) -> list[LensRow]:
    """The lens at each residual stream.

    Forward: p = softmax(head(norm(x))), x the residual stream at the MASK after the question
    Source:  the logit lens, nostalgebraist 2020
    """
    found = activations(model, cases.ids, streams(model))
    rows = []
    for name, x in found.items():
        p = ops.softmax(logits_of(model, cases.at_start(x))).numpy()
        of_first = p[np.arange(len(p)), cases.first]
        correct = int((p.argmax(-1) == cases.first).sum())
        rows.append(LensRow(name, correct, float(of_first.mean())))
    return rows
