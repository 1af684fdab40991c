"""Wing, trace: attribution, what each part of a model adds to the logit of an answer.

The last residual stream is a sum: the embedding, and what each layer's attention and feed-forward
network have added. Attention is a sum over its heads. A logit is linear in the residual stream, but
for the standard deviation by which layer norm divides. With this one number fixed, a logit is the
sum of one term for each part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyattn.models import GPT
from tinyattn.trace.cases import Cases, activations


@dataclass(frozen=True)
class Attribution:
    """The terms of the logit of each answer's first token, at the MASK after the question.

    Shapes: terms, leads (N, P) for N cases and P parts; logits (N,)
    Units:  nats
    """

    names: list[str]  # of the parts
    terms: np.ndarray  # their sums are the logits
    leads: np.ndarray  # the terms minus the mean of those of the other cases' first tokens
    logits: np.ndarray


def attribution(model: GPT, cases: Cases) -> Attribution:
    """What each head and each feed-forward network adds to the logit of the right first token.

    Forward: logit_a = Σ over the parts y of ((y - mean y)/σ·gain) W_a, σ² = Var x + ε; x is their
             sum, the last residual stream; the bias of the layer norm is a part, too
    Source:  direct logit attribution, Elhage and others 2021
    """
    C, last = model.config.width, len(model.layers) - 1
    through = [last] if model.perceiver is not None else range(last + 1)  # else add to latents
    names = ["embedding", f"layers.{last}"]
    names += [f"layers.{i}.{part}" for i in through
              for part in ("attention.heads", "attention", "feedforward")]  # fmt: skip
    found = {name: cases.at_start(np.swapaxes(x, 1, 2) if name.endswith("heads") else x)
             for name, x in activations(model, cases.ids, names).items()}  # fmt: skip
    parts = {"embedding": found["embedding"]}
    for i in through:
        out = model.layers[i].attention.out.weight.numpy()  # type: ignore[attr-defined]
        heads = found[f"layers.{i}.attention.heads"]  # (N, H, D)
        H, D = heads.shape[1:]
        by_head = np.einsum("nhd,hdc->nhc", heads, out.reshape(H, D, C))
        parts |= {f"layers.{i} head {h}": by_head[:, h] for h in range(H)}
        parts[f"layers.{i} attention bias"] = found[f"layers.{i}.attention"] - by_head.sum(1)
        parts[f"layers.{i} feedforward"] = found[f"layers.{i}.feedforward"]
    x = found[f"layers.{last}"].astype(np.float64)
    deviation = np.sqrt(x.var(-1, keepdims=True) + model.norm.eps)
    gain, bias = model.norm.gain.numpy(), model.norm.bias.numpy()
    rows = [(y - y.mean(-1, keepdims=True)) / deviation * gain for y in parts.values()]
    stacked = np.stack([*rows, np.broadcast_to(bias, x.shape)], axis=1)  # (N, P, C)
    every = stacked @ model.head.weight.numpy().astype(np.float64)  # (N, P, V)
    each = np.arange(len(x))
    terms = every[each, :, cases.first]
    return Attribution([*parts, "norm bias"], terms, terms - _of_others(every, cases.first),
                       terms.sum(-1))  # fmt: skip


def _of_others(every: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The mean term of the other first tokens that occur: (N, P, V) -> (N, P)."""
    tokens = np.unique(first)
    others = every[:, :, tokens].sum(-1) - every[np.arange(len(first)), :, first]
    mean: np.ndarray = others / max(1, len(tokens) - 1)
    return mean
