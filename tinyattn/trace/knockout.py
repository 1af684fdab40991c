"""Wing, trace: knock-out, which parts of a model the answers need.

A part that is there need not be used. To find out, take it out and count the answers that are lost:
the output of a head, of a feed-forward network or of a single neuron becomes 0, or a query may no
longer attend to some keys. A model never sees such zeros in training, so the number of lost answers
is an upper bound: it may be confused by them, and not miss the part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tinyattn.backend import get_device
from tinyattn.data.batches import PAD
from tinyattn.graph import no_grad
from tinyattn.models import GPT
from tinyattn.nn import Hook, NoActivation
from tinyattn.tensor import Tensor
from tinyattn.trace.cases import Cases, activations, parts_of, run, times, without_head
from tinyattn.trace.lens import logits_of
from tinyattn.workers import side_by_side

NEURONS = 64
"""Neurons that are taken out in one matrix product."""


class Loss(NamedTuple):
    """What is lost without one part."""

    name: str
    correct: int  # cases that are still answered correctly
    lost: int  # cases that were correct with the part, and are not without it


Step = Callable[[int], None]


def heads(model: GPT, cases: Cases) -> list[Loss]:
    """Without each head, and without each layer's attention as a whole."""
    before = cases.correct(run(model, cases.ids))
    rows = []
    for i, layer in enumerate(model.layers):
        H = layer.attention.heads
        for h in range(H):
            hook = without_head(i, h, H)
            rows.append(_loss(model, cases, before, f"layers.{i} head {h}", hook))
        hook = {f"layers.{i}.attention": times(np.zeros(()))}
        rows.append(_loss(model, cases, before, f"layers.{i} attention", hook))
    return rows


def feedforwards(model: GPT, cases: Cases) -> list[Loss]:
    """Without each layer's feed-forward network."""
    before = cases.correct(run(model, cases.ids))
    return [
        _loss(model, cases, before, f"layers.{i} feedforward",
              {f"layers.{i}.feedforward": times(np.zeros(()))})
        for i in range(len(model.layers))
    ]  # fmt: skip


def neurons(model: GPT, cases: Cases, on_step: Step = lambda count: None) -> np.ndarray:
    """The number of lost answers without each single neuron: (layers, F).

    In the last layer a neuron changes only the residual stream at its own position. So all changed
    streams are computed at once, at the positions that predict the answer.

    Args: on_step: called with the number of neurons after some of them.
    """
    cases = cases.take(cases.correct(run(model, cases.ids)))  # only these can be lost
    last = len(model.layers) - 1
    if not len(cases.ids):
        return np.zeros((last + 1, model.layers[last].feedforward.contract.weight.shape[0]), int)
    lost = [_neurons_before(model, cases, i, on_step) for i in range(last)]
    at = cases.targets != PAD  # (N, T): where tokens of the answer are predicted
    name = f"layers.{last}"
    found = activations(model, cases.ids, [name, f"{name}.feedforward.hidden"])
    x, hidden = found[name][at], found[f"{name}.feedforward.hidden"][at]  # (P, C), (P, F)
    weight = model.layers[last].feedforward.contract.weight.numpy()  # (F, C)
    begins = np.flatnonzero(np.diff(np.nonzero(at)[0], prepend=-1))  # of each case, in x
    targets = cases.targets[at]

    def without(chosen: slice) -> np.ndarray:
        wrong = logits_of(model, streams_without(x, hidden, weight, chosen)).argmax(-1) != targets
        on_step(len(wrong))
        found: np.ndarray = np.logical_or.reduceat(wrong, begins, axis=1).sum(-1)
        return found

    F = hidden.shape[1]
    groups = [slice(start, start + NEURONS) for start in range(0, F, NEURONS)]
    xp = get_device(model.device).xp
    return np.stack([*lost, np.concatenate([*side_by_side(xp, without, groups)])])


def streams_without(
    x: np.ndarray, hidden: np.ndarray, weight: np.ndarray, chosen: slice
) -> np.ndarray:
    """The residual stream without each of some neurons.

    Shapes: x (P, C), hidden (P, F), weight of the second map (F, C) -> (neurons, P, C)
    """
    found: np.ndarray = x - hidden.T[chosen, :, None] * weight[chosen, None]
    return found


def _neurons_before(model: GPT, cases: Cases, layer: int, on_step: Step) -> np.ndarray:
    """The lost answers without each neuron of a layer that is not the last: (F,)."""
    name, weight = f"layers.{layer}", model.layers[layer].feedforward.contract.weight
    found = activations(model, cases.ids, [name, f"{name}.feedforward.hidden"])
    x, hidden = (Tensor(a, device=model.device) for a in found.values())

    def without(neuron: int) -> int:
        with no_grad():
            after = x - hidden[..., neuron : neuron + 1] * weight[neuron]
            logits = logits_from(model, layer, after, cases.ids).numpy()
        on_step(1)
        return int((~cases.correct(logits)).sum())

    xp = get_device(model.device).xp
    return np.array([*side_by_side(xp, without, range(len(weight)))])


def edges(model: GPT, cases: Cases) -> dict[str, dict[tuple[str, str], int]]:
    """The lost answers if the positions of one part may not attend to those of another.

    Returns: for each layer (query part, key part) -> number of lost answers.
    Raises: NoActivation if the keys of this attention type are not the positions of the sequence.
    Source: attention knockout, Geva and others 2023
    """
    if model.perceiver is not None:
        raise NoActivation("perceiver: its layers attend to latents, which are no positions")
    before, parts = cases.correct(run(model, cases.ids)), parts_of(cases)
    found: dict[str, dict[tuple[str, str], int]] = {}
    for i in range(len(model.layers)):
        name = f"layers.{i}"
        found[name] = {}
        for a, (query, queries) in enumerate(parts.items()):
            for key, keys in [*parts.items()][: a + 1]:  # causal: only parts before it
                cut = queries[:, :, None] & keys[:, None]  # (N, T, S)

                def hooks(rows: slice, cut: np.ndarray = cut, at: str = name) -> dict[str, Hook]:
                    return {f"{at}.attention.weights": without_edges(cut[rows])}

                after = cases.correct(run(model, cases.ids, hooks))
                found[name][query, key] = int((before & ~after).sum())
    return found


def logits_from(model: GPT, layer: int, x: Tensor, ids: np.ndarray) -> Tensor:
    """The logits for `ids` if x is the residual stream after this layer."""
    if model.perceiver is not None:
        return model(ids, hooks={f"layers.{layer}": lambda _: x})
    for later in model.layers[layer + 1 :]:  # the layers before need not be computed again
        x = later(x, causal=True)
    return model.head(model.norm(x))


def _loss(model: GPT, cases: Cases, before: np.ndarray, name: str, hook: dict[str, Hook]) -> Loss:
    after = cases.correct(run(model, cases.ids, lambda rows: hook))
    return Loss(name, int(after.sum()), int((before & ~after).sum()))


def without_edges(cut: np.ndarray) -> Hook:
    """A hook that sets attention weights to 0 where `cut` is True, and the sum of a row to 1 again.

    This gives the same weights as a mask, unless no other weight is above 0; then the row is 0. A
    type may have more keys than positions; they stay.
    """

    def hook(weights: Tensor) -> Tensor:
        w = weights.numpy().copy()
        w[..., : cut.shape[-1]] *= ~cut[:, None]
        total = w.sum(-1, keepdims=True)
        return Tensor(w / np.where(total > 0, total, 1), dtype=weights.dtype, device=weights.device)

    return hook
