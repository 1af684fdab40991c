"""Chapter 6: generation.

A language model computes the probability of each next token (here a token is one character).
Generation means choosing a token, appending it to the sequence and calling the model again. Greedy
decoding always takes the most likely token: the text is reproducible but dull. Sampling from the
distribution makes lively text. Temperature, top-k and top-p lie between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tinyattn.attention.cache import KeyValueCache
from tinyattn.backend import asnumpy, get_device
from tinyattn.graph import no_grad
from tinyattn.limits import whole
from tinyattn.models.gpt import GPT
from tinyattn.services import service
from tinyattn.workers import side_by_side

TOGETHER = 16, 64
"""Fewest and most sequences that are generated together: many share the work that is done once per
step, but each needs memory for its cache."""
SHARES = 8
"""Groups for the threads to share, if prompts are many: a slow last group then costs little."""


class ScoresError(ValueError):
    """The logits of a model are NaN or ∞, so no token can be chosen."""


def next_ids(
    logits: np.ndarray,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Choose the next token of each sequence.

    Shapes: logits (B, V) -> ids (B,)

    Args:
        temperature: logits are divided by it; 0 means greedy (the first of several largest).
        top_k: sample from the k most likely tokens (of equal ones, those with smaller ids).
        top_p: sample from the smallest set of most likely tokens whose probabilities sum to at
            least p.
        rng: generator to sample with; not needed at temperature 0.
    Raises: ValueError for a setting out of range; ScoresError, a ValueError, for logits that are
        NaN or ∞.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0 and finite; got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1; got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1; got {top_p}")
    if not np.isfinite(logits.max(axis=-1)).all():  # -∞ is allowed: it excludes a token
        raise ScoresError("the model's logits are NaN or ∞: its training has failed")
    if temperature == 0 or top_k == 1:
        return np.asarray(logits.argmax(axis=-1))
    if rng is None:
        raise ValueError("sampling at a temperature above 0 needs rng, a seeded generator")
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    ranked = np.take_along_axis(logits, order, axis=-1).astype(np.float64)
    with np.errstate(under="ignore", over="ignore"):
        p = np.exp((ranked - ranked[:, :1]) / temperature)
    p /= p.sum(axis=-1, keepdims=True)
    if top_p is not None:
        p *= np.cumsum(p, axis=-1) - p < top_p  # keep a token if those before it sum to less
    reached = np.cumsum(p, axis=-1)
    drawn = rng.random((len(p), 1)) * reached[:, -1:]
    rank = (reached <= drawn).sum(axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(order, rank, axis=-1)[:, 0])


@service
def next_logits(
    xp: Any, model: GPT, ids: np.ndarray, cache: list[KeyValueCache] | None
) -> np.ndarray:
    """The logits of the token after each sequence, on the host.

    Shapes: ids (B, T), the tokens after those in the cache -> logits (B, V)
    """
    with no_grad():
        return np.asarray(asnumpy(model(ids, cache=cache).data[:, -1]))


def generate(
    model: GPT,
    prompts: np.ndarray | Sequence[np.ndarray],
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[np.ndarray]:
    """Generate after each prompt, one token per step, until the longest has `count` new tokens.

    Prompts of different lengths start together, after the end of the shortest. While a longer
    prompt is not at its end, its own next token is appended to it instead of a new one. So nothing
    is computed for padding, and every token has the position that it would have alone.

    A sequence may become longer than the context length of the model. The model then gets the last
    `context` tokens, without a cache, because every position in this window has moved.

    Args:
        prompts: (B, T) ids, or B arrays of ids, each with at least one id.
        count: number of new tokens for the longest prompt; shorter ones get more.
        use_cache: keep keys and values between steps, if the attention type can; the result is the
            same.
        temperature, top_k, top_p, rng: see `next_ids`.
    Yields: ids (B,), one array per step; the first has the tokens after the shortest prompts.
    Raises: ValueError, at the first step, if there are no prompts, if one is empty or not integer,
        or for a count below 0.
    """
    rows = [np.asarray(prompt) for prompt in prompts]
    if not rows or any(row.ndim != 1 or not len(row) for row in rows):
        shapes = [row.shape for row in rows]
        raise ValueError(f"generate: prompts must be rows of at least 1 id each; got {shapes}")
    if any(row.dtype.kind not in "iu" for row in rows) or count < 0:
        kinds = sorted({str(row.dtype) for row in rows})
        raise ValueError(
            f"generate: ids must be integers and count at least 0; got {kinds}, {count}"
        )
    whole("generate: count", count)
    lengths = np.array([len(row) for row in rows])
    shortest, longest = int(lengths.min()), int(lengths.max())
    ids = np.zeros((len(rows), longest + count), np.int64)
    for sequence, row in zip(ids, rows, strict=True):
        sequence[: len(row)] = row
    context = model.max_length
    use_cache = use_cache and "cache" not in model.cannot
    cache, cached, xp = model.new_cache(), 0, get_device(model.device).xp
    for stop in range(shortest, longest + count):
        if use_cache and stop <= context:
            logits = next_logits(xp, model, ids[:, cached:stop], cache)
        else:
            logits = next_logits(xp, model, ids[:, max(0, stop - context) : stop], None)
        chosen = next_ids(logits, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)
        ids[:, stop] = np.where(lengths > stop, ids[:, stop], chosen)
        cached = stop
        yield ids[:, stop].copy()


def continuations(
    model: GPT,
    prompts: np.ndarray | Sequence[np.ndarray],
    count: int,
    *,
    end: int | None = None,
    use_cache: bool = True,
    workers: int | None = None,
    on_generated: Callable[[int], None] = lambda prompts: None,
) -> list[np.ndarray]:
    """Greedy decoding after each prompt: `count` new tokens, or fewer up to and including `end`.

    Prompts of about the same length form groups, which threads may share. The result does not
    depend on the number of threads.

    Args:
        use_cache: see `generate`.
        workers: number of threads; see `side_by_side`.
        on_generated: called after each group with its number of prompts.
    """
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    fewest, most = TOGETHER
    together = min(most, max(fewest, math.ceil(len(order) / SHARES)))
    groups = [order[i : i + together] for i in range(0, len(order), together)]

    def generate_group(group: list[int]) -> list[np.ndarray]:
        begun = [prompts[i] for i in group]
        steps = generate(model, begun, count, temperature=0, use_cache=use_cache)
        return _generated_together(begun, steps, count, end)

    generated_ids = [np.empty(0, np.int64)] * len(order)
    xp = get_device(model.device).xp
    for group, rows in zip(groups, side_by_side(xp, generate_group, groups, workers), strict=True):
        for i, row in zip(group, rows, strict=True):
            generated_ids[i] = row
        on_generated(len(group))
    return generated_ids


def _generated_together(
    prompts: list[np.ndarray], generated: Iterator[np.ndarray], count: int, end: int | None
) -> list[np.ndarray]:
    """`continuations` for one group: takes steps of `generate` until all sequences have ended."""
    lengths = np.array([len(prompt) for prompt in prompts])
    begins = lengths - lengths.min()  # the step of each prompt's first new token
    steps: list[np.ndarray] = []
    ended = np.zeros(len(lengths), bool)
    for ids in generated:
        ended |= (len(steps) >= begins) & (ids == end)
        steps.append(ids)
        ended |= len(steps) >= begins + count
        if ended.all():
            break
    columns = np.array(steps, np.int64).reshape(len(steps), len(prompts))
    rows = zip(columns.T, begins, strict=True)
    generated_ids = [row[begin : begin + count] for row, begin in rows]
    return [w[: int(np.append(w == end, True).argmax()) + 1] for w in generated_ids]
