"""Wing, explore: what a page shows of a trained model and a text.

Weights, queries, keys and values of every head; what each residual stream predicts; the next token
without each head, neuron and attention edge; rows of another text of the same length, put in; which
positions depend on which; and the tokens that the model generates, with their probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tinyattn.attention import MultiHead
from tinyattn.attention.block import Call
from tinyattn.data.text import DataError
from tinyattn.explore.knockout_maps import knockout_maps, probabilities
from tinyattn.explore.page import MOST, Section
from tinyattn.graph import no_grad
from tinyattn.models import GPT, continuations
from tinyattn.tasks.evaluation import ANSWER_STEPS, prompt_of
from tinyattn.tasks.knowledge import Trained
from tinyattn.tensor import Tensor
from tinyattn.trace.cases import activations, put
from tinyattn.trace.lens import logits_of, streams
from tinyattn.trace.measures import Begin, no_bar
from tinyattn.workers import one_thread

TOP = 5
"""Number of likely tokens that are shown at each place."""
LONGEST_INFLUENCE = 96
"""Largest number of positions for which the influence is computed: it takes a call for each."""


def sections_of(
    trained: Trained,
    texts: Sequence[str],
    *,
    steps: int = ANSWER_STEPS,
    begin: Begin = no_bar,
) -> list[Section]:
    """Sections for some texts, each with the model's own continuation.

    A finetuned model gets `text MASK`, as for a question; a model of a text gets the text.

    Args:
        steps: number of tokens to generate; generation also ends at MASK.
        begin: begins a progress bar.
    Raises: DataError for a text that is empty, too long or has an unknown character.
    """
    model, vocabulary = trained.model, trained.vocabulary
    asks = trained.recipe.data.objective == "span"
    found: list[Section] = []
    before: tuple[str, np.ndarray] | None = None
    with one_thread(np):  # small products: threads of BLAS would wait for each other
        for text in texts:
            ids = prompt_of(vocabulary, text) if asks else vocabulary.encode(text)
            if not 0 < len(ids) < min(MOST, model.max_length):
                raise DataError(f"the text {text[:40]!r} has {len(ids)} tokens; it must have 1 to "
                                f"{min(MOST, model.max_length) - 1}")  # fmt: skip
            made = _generation(trained, ids, min(steps, model.max_length - len(ids)), asks)
            tokens = [vocabulary.characters[i] for i in ids]
            more = {"generation": made, **knockout_maps(trained, ids, begin), **_lens(trained, ids)}
            if before is not None:
                more["patch"] = _patch(trained, *before, ids)
            if len(ids) <= LONGEST_INFLUENCE:
                more["influence"] = _influence(model, ids)
            answer = "".join(step["token"] for step in made)
            first = f"{100 * made[0]['p']:.1f} %" if made else ""
            mask = vocabulary.characters[vocabulary.mask]
            change = np.abs(np.array(more["knock"]["heads"]) - more["knock"]["base"])
            layer, head = (int(i) for i in np.unravel_index(change.argmax(), change.shape))
            about: dict[str, Any] = {"summary": (
                f"The model continues with: {answer} (first token {first}). Of all heads, head "
                f"{head} of layers.{layer} changes this probability most if it is taken out. "
                f"{mask} is MASK, which ends a question and an answer; ␣ is a space."
            )}  # fmt: skip
            if model.perceiver is None:  # else the layers are in several sections
                about["start"] = [layer, head]
            found += _layers(trained, text, tokens, ids, more, about)
            before = text, ids
    return found


def _layers(
    trained: Trained, text: str, tokens: list[str], ids: np.ndarray, more: dict[str, Any],
    about: dict[str, Any],
) -> list[Section]:  # fmt: skip
    """A section for each group of layers whose weights have the same shape; one for most types."""
    model = trained.model
    names = [f"layers.{i}" for i in range(len(model.layers))]
    kept = activations(model, ids[None], ["embedding", *names,
                                          *(f"{n}.attention.weights" for n in names)])  # fmt: skip
    weights = [kept[f"{name}.attention.weights"][0] for name in names]
    found = []
    last = len(names) - 1
    latents = model.perceiver is not None  # its first layer reads the sequence, its last writes it
    for _, group in groupby(range(last + 1), key=lambda i: latents and (i == 0, i == last)):
        here = [*group]
        _, T, S = weights[here[0]].shape
        queries = tokens if not latents or here == [last] else [f"latent {t}" for t in range(T)]
        read = not latents or here == [0]  # the keys are the sequence's
        keys = tokens if read else [f"latent {s}" for s in range(S)]
        keys = [*keys, *(f"summary {n}" for n in range(S - len(keys)))]
        arrays: dict[str, Any] = {}
        if not latents:
            inputs = ["embedding", *names[:-1]]
            arrays = _projections(model, here, [kept[inputs[i]] for i in here])
        else:
            arrays["more"] = {"why_no_q": "Queries and keys are not shown for a Perceiver."}
        extra = arrays.pop("more", {}) | about | (more if here[-1] == last else {})
        title = text if len(here) == len(names) else f"{text} ({', '.join(names[i] for i in here)})"
        found.append(Section(queries, np.stack([weights[i] for i in here]), title=title,
                             keys=None if keys == queries else keys,
                             layers=[names[i] for i in here], more=extra, **arrays))  # fmt: skip
    return found


def _projections(model: GPT, layers: list[int], inputs: list[np.ndarray]) -> dict[str, Any]:
    """Queries, keys, values and output maps of some layers, from the residual streams before."""
    found: dict[str, Any] = {"q": [], "k": [], "v": [], "out": []}
    for i, stream in zip(layers, inputs, strict=True):
        layer: Any = model.layers[i]
        block = layer.attention
        with no_grad():
            x = layer.norm_1(Tensor(stream, device=model.device))
            if isinstance(block, MultiHead):
                q, k = block.queries_and_keys(x, x)
                found["q"].append(q.numpy()[0])
                found["k"].append(k.numpy()[0])
            if hasattr(block, "weighted_values"):
                found["v"].append(block.weighted_values(x, Call(causal=True)).numpy()[0])
                found["out"].append(block.out.weight.numpy())
    arrays: dict[str, Any] = {name: np.stack(a) if a else None for name, a in found.items()}
    if arrays["q"] is None:
        arrays["more"] = {"why_no_q": "This attention type has no queries and keys."}
    else:
        arrays["scale"] = [model.layers[i].attention.scale for i in layers]  # type: ignore[attr-defined]
    return arrays


def _top(trained: Trained, logits: np.ndarray) -> list[list[Any]]:
    """The most likely tokens with their probabilities."""
    p = probabilities(logits)
    return [[trained.vocabulary.characters[i], round(float(p[i]), 6)] for i in np.argsort(-p)[:TOP]]


def _lens(trained: Trained, ids: np.ndarray) -> dict[str, Any]:
    names = streams(trained.model)
    found = activations(trained.model, ids[None], names)
    rows = [[_top(trained, at) for at in logits_of(trained.model, x[0])] for x in found.values()]
    return {"streams": names, "lens": rows}


def _patch(trained: Trained, text: str, one: np.ndarray, two: np.ndarray) -> dict[str, Any]:
    """How much of the logit gap follows if a row of the first text is put into the second."""
    model, names = trained.model, streams(trained.model)
    if len(one) != len(two):
        return {"why": f"not possible: the text before has {len(one)} tokens, this one {len(two)}"}
    with no_grad():
        a, b = (model(ids[None]).numpy()[0, -1] for ids in (one, two))
    first, second = int(a.argmax()), int(b.argmax())
    if first == second:
        return {"why": "not possible: both texts have the same next token"}
    values = activations(model, one[None], names)
    below, whole = b[first] - b[second], (a[first] - a[second]) - (b[first] - b[second])
    rows = []
    for name in names:
        gaps = []
        for at in np.eye(len(two), dtype=bool):
            with no_grad():
                c = model(two[None], hooks={name: put(values[name], at[None])}).numpy()[0, -1]
            gaps.append(round(float((c[first] - c[second] - below) / whole), 6))
        rows.append(gaps)
    letters = [trained.vocabulary.characters[i] for i in (first, second)]
    return {"rows": rows, "tokens": letters, "from": f"“{text}”"}


def _influence(model: GPT, ids: np.ndarray) -> np.ndarray:
    """Whether the logits at position t depend on the token at position s: (T, T)."""
    T = len(ids)
    changed = np.tile(ids, (T, 1))
    changed[np.arange(T), np.arange(T)] = (ids + 1) % model.config.vocabulary
    with no_grad():
        before = model(np.tile(ids, (T, 1))).numpy()
        differs: np.ndarray = (model(changed).numpy() != before).any(-1)  # (s, t)
    return differs.T


def _generation(trained: Trained, ids: np.ndarray, steps: int, asks: bool) -> list[dict[str, Any]]:
    """The greedy continuation, each token with its probability and the next likely ones."""
    model, vocabulary = trained.model, trained.vocabulary
    end = vocabulary.mask if asks else None
    (made,) = continuations(model, [ids], steps, end=end)
    with no_grad():
        logits = model(np.append(ids, made)[None]).numpy()[0, len(ids) - 1 :]
    found = []
    for token, at in zip(made, logits, strict=False):
        p = probabilities(at)
        likely = [i for i in np.argsort(-p)[:TOP] if i != token]
        others = [[vocabulary.characters[i], round(float(p[i]), 6)] for i in likely]
        found.append({"token": vocabulary.characters[token], "p": round(float(p[token]), 6),
                      "others": others})  # fmt: skip
    return found
