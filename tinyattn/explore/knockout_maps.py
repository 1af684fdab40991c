"""Wing, explore: the probability of the next token without each part of a model, for one text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.graph import no_grad
from tinyattn.models import GPT
from tinyattn.nn import Hook
from tinyattn.tasks.knowledge import Trained
from tinyattn.tensor import Tensor
from tinyattn.trace.cases import activations, run, without_head
from tinyattn.trace.knockout import NEURONS, Step, logits_from, streams_without, without_edges
from tinyattn.trace.lens import logits_of
from tinyattn.trace.measures import Begin

LONGEST_NEURONS = 96
"""Largest number of positions for the map of neurons: each neuron takes a call of a layer."""
LONGEST_EDGES = 48
"""Likewise for attention edges, of which there are up to T(T + 1)/2 in each layer."""


def knockout_maps(trained: Trained, ids: np.ndarray, begin: Begin) -> dict[str, Any]:
    """The probability of the most likely next token without each head, neuron and attention edge.

    Args: begin: begins a progress bar.
    """
    model, layers = trained.model, [f"layers.{i}" for i in range(len(trained.model.layers))]
    with no_grad():
        base = probabilities(model(ids[None]).numpy()[0, -1])
    token, found = int(base.argmax()), {}
    knock = {"base": float(base[token]), "token": trained.vocabulary.characters[token],
             "layers": layers, "heads": head_map(model, ids, token).tolist(),
             "why_no_neurons": "", "why_no_edges": why_no_edges(model, len(ids))}  # fmt: skip
    if len(ids) > LONGEST_NEURONS:
        knock["why_no_neurons"] = f"Not computed for more than {LONGEST_NEURONS} tokens."
    else:
        F = model.layers[0].feedforward.contract.weight.shape[0]
        found["neurons"] = neuron_map(model, ids, token, begin("neurons", F * len(layers)))
    if not knock["why_no_edges"]:
        found["edges"] = edge_map(model, ids, token, begin("attention edges", len(layers)))
    return {"knock": knock, **found}


def why_no_edges(model: GPT, tokens: int) -> str:
    """The reason for which there is no map of edges, or nothing."""
    if model.perceiver is not None:
        return "Not computed for a Perceiver: its layers attend to latents, which are no tokens."
    if tokens > LONGEST_EDGES:
        return f"Not computed for more than {LONGEST_EDGES} tokens."
    return ""


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The softmax of logits (.., V), in float64."""
    return ops.softmax(Tensor(logits, dtype="float64")).numpy()


def head_map(model: GPT, ids: np.ndarray, token: int) -> np.ndarray:
    """The probability of a token if the output of a head is 0: (L, H)."""
    found = []
    for i, layer in enumerate(model.layers):
        H = layer.attention.heads
        for h in range(H):
            with no_grad():
                logits = model(ids[None], hooks=without_head(i, h, H)).numpy()[0, -1]
            found.append(probabilities(logits)[token])
    return np.reshape(found, (len(model.layers), -1))


def neuron_map(model: GPT, ids: np.ndarray, token: int, on_step: Step) -> np.ndarray:
    """The probability of a token if a neuron is 0: (L, F).

    Args: on_step: called with the number of neurons after some of them.
    """
    return np.stack([_layer_of_neurons(model, i, ids, token, on_step)
                     for i in range(len(model.layers))])  # fmt: skip


def _layer_of_neurons(
    model: GPT, layer: int, ids: np.ndarray, token: int, on_step: Step
) -> np.ndarray:
    name, weight = f"layers.{layer}", model.layers[layer].feedforward.contract.weight.numpy()
    x, hidden = (a[0] for a in activations(
        model, ids[None], [name, f"{name}.feedforward.hidden"]).values())  # fmt: skip
    last = layer == len(model.layers) - 1  # then only the last position counts
    if last:
        x, hidden = x[-1:], hidden[-1:]
    found = []
    for start in range(0, len(weight), NEURONS):
        streams = streams_without(x, hidden, weight, slice(start, start + NEURONS))
        if last:
            logits = logits_of(model, streams)
        else:
            with no_grad():
                each = Tensor(streams, dtype=model.head.weight.dtype, device=model.device)
                same = np.tile(ids, (len(streams), 1))
                logits = logits_from(model, layer, each, same).numpy()
        found.append(probabilities(logits[:, -1])[:, token])
        on_step(len(streams))
    return np.concatenate(found)


def edge_map(model: GPT, ids: np.ndarray, token: int, on_step: Step) -> np.ndarray:
    """The probability of a token if a query may not attend to a key, in all heads: (L, T, T).

    NaN where there is no edge: no head has a weight there. If a type has summaries or latents among
    its keys, the query still attends to those that contain the key.

    Args: on_step: called after each layer.
    """
    T, L = len(ids), len(model.layers)
    names = [f"layers.{i}.attention.weights" for i in range(L)]
    weights = activations(model, ids[None], names)
    found = np.full((L, T, T), np.nan)
    for i, name in enumerate(names):
        queries, keys = np.nonzero((weights[name][0, ..., :T] > 0).any(0))
        cut = np.zeros((len(keys), T, T), bool)
        cut[np.arange(len(keys)), queries, keys] = True

        def hooks(rows: slice, cut: np.ndarray = cut, name: str = name) -> dict[str, Hook]:
            return {name: without_edges(cut[rows])}

        logits = run(model, np.tile(ids, (len(keys), 1)), hooks)[:, -1]
        found[i, queries, keys] = probabilities(logits)[:, token]
        on_step(1)
    return found
