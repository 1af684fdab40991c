"""Chapter 6: writing.

A language model says how likely each next symbol is. Writing means choosing one, appending it and
asking again. The most likely one always (greedy) makes dull but reproducible text; drawing from
the distribution makes lively text; temperature, top-k and top-p lie between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinyattn.backend import asnumpy, get_device
from tinyattn.graph import no_grad
from tinyattn.limits import whole
from tinyattn.models.gpt import GPT
from tinyattn.threads import side_by_side

TOGETHER = 16, 64
"""Texts that are continued together: fewest, for what is done once a step is shared by them, and
most, for the cache."""
SHARES = 8
"""Groups for the cores to share, where texts are many: then a slow one at the end costs little."""


class ScoresError(ValueError):
    """A model's scores are no numbers, so there is nothing to choose by."""


def next_ids(
    logits: np.ndarray,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Choose the next symbol of each text.

    Shapes: logits (B, V) -> ids (B,)

    Args:
        temperature: scores are divided by it; 0 is greedy, the first of the largest.
        top_k: keep only the k most likely symbols (of equals, those with the smaller id).
        top_p: keep only the most likely symbols that together reach probability p.
        rng: where draws come from; not needed at temperature 0.
    Raises: ValueError for a setting out of range; ScoresError, which is one, for logits that are
        not numbers.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0 and finite; got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1; got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1; got {top_p}")
    if not np.isfinite(logits.max(axis=-1)).all():  # -∞ beside numbers rules a symbol out
        raise ScoresError("the model's scores are not numbers (NaN or ∞): it was not trained well")
    if temperature == 0 or top_k == 1:
        return np.asarray(logits.argmax(axis=-1))
    if rng is None:
        raise ValueError("drawing at a temperature above 0 needs rng, a seeded generator")
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    ranked = np.take_along_axis(logits, order, axis=-1).astype(np.float64)
    with np.errstate(under="ignore", over="ignore"):
        p = np.exp((ranked - ranked[:, :1]) / temperature)
    p /= p.sum(axis=-1, keepdims=True)
    if top_p is not None:
        p *= np.cumsum(p, axis=-1) - p < top_p  # a symbol stays if those before it fall short
    reached = np.cumsum(p, axis=-1)
    drawn = rng.random((len(p), 1)) * reached[:, -1:]
    rank = (reached <= drawn).sum(axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(order, rank, axis=-1)[:, 0])


def generate(
    model: GPT,
    texts: np.ndarray | Sequence[np.ndarray],
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: np.random.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[np.ndarray]:
    """Continue each text, one symbol at a time, until the longest has `count` more.

    Texts of different length begin together. The shortest are continued while the others are still
    being read: a text that is not at its end yet is followed by its own next symbol. So nothing is
    computed for padding, and every symbol has the position that it would have alone.

    A text may outgrow the model's context: the model then sees its last `context` symbols, which
    is computed without the cache, because every position in the window has moved.

    Args:
        texts: (B, T) ids, or B arrays of ids, each with at least one.
        use_cache: whether to keep keys and values between steps, where the attention can; the
            result is the same.
        temperature, top_k, top_p, rng: see `next_ids`.
    Yields: ids (B,), one array a step; the first has the symbols behind the shortest texts.
    Raises: ValueError, at the first step, for no text, an empty one, one that is not of integers,
        or a count below 0.
    """
    rows = [np.asarray(text) for text in texts]
    if not rows or any(row.ndim != 1 or not len(row) for row in rows):
        shapes = [row.shape for row in rows]
        raise ValueError(f"generate: texts must be rows of at least 1 id each; got {shapes}")
    if any(row.dtype.kind not in "iu" for row in rows) or count < 0:
        kinds = sorted({str(row.dtype) for row in rows})
        raise ValueError(
            f"generate: ids must be integers and count at least 0; got {kinds}, {count}"
        )
    whole("generate: count", count)
    lengths = np.array([len(row) for row in rows])
    shortest, longest = int(lengths.min()), int(lengths.max())
    ids = np.zeros((len(rows), longest + count), np.int64)
    for so_far, row in zip(ids, rows, strict=True):
        so_far[: len(row)] = row
    context = model.longest
    use_cache = use_cache and "cache" not in model.cannot
    cache, seen = model.new_cache(), 0
    for stop in range(shortest, longest + count):
        with no_grad():
            if use_cache and stop <= context:
                logits = model(ids[:, seen:stop], cache=cache)
            else:
                logits = model(ids[:, max(0, stop - context) : stop])
            last = asnumpy(logits.data[:, -1])
        chosen = next_ids(last, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)
        ids[:, stop] = np.where(lengths > stop, ids[:, stop], chosen)
        seen = stop
        yield ids[:, stop].copy()


def continuations(
    model: GPT,
    texts: np.ndarray | Sequence[np.ndarray],
    count: int,
    *,
    end: int | None = None,
    use_cache: bool = True,
    workers: int | None = None,
    on_written: Callable[[int], None] = lambda texts: None,
) -> list[np.ndarray]:
    """What most likely follows each text: `count` symbols, or fewer, of which the last is `end`.

    Texts of about the same length are continued together, in groups that threads may share. The
    result does not depend on how many there are.

    Args:
        use_cache: see `generate`.
        workers: threads; see `side_by_side`.
        on_written: told how many texts are done, each time that a group is.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    fewest, most = TOGETHER
    together = min(most, max(fewest, math.ceil(len(order) / SHARES)))
    groups = [order[i : i + together] for i in range(0, len(order), together)]

    def write(group: list[int]) -> list[np.ndarray]:
        begun = [texts[i] for i in group]
        steps = generate(model, begun, count, temperature=0, use_cache=use_cache)
        return _written_together(begun, steps, count, end)

    written = [np.empty(0, np.int64)] * len(order)
    xp = get_device(model.device).xp
    for group, rows in zip(groups, side_by_side(xp, write, groups, workers), strict=True):
        for i, row in zip(group, rows, strict=True):
            written[i] = row
        on_written(len(group))
    return written


def _written_together(
    texts: list[np.ndarray], generated: Iterator[np.ndarray], count: int, end: int | None
) -> list[np.ndarray]:
    """`continuations` of one group that `generate` writes: it is asked until all have ended."""
    lengths = np.array([len(text) for text in texts])
    begins = lengths - lengths.min()  # the step that writes a text's first symbol
    steps: list[np.ndarray] = []
    ended = np.zeros(len(lengths), bool)
    for ids in generated:
        ended |= (len(steps) >= begins) & (ids == end)
        steps.append(ids)
        ended |= len(steps) >= begins + count
        if ended.all():
            break
    columns = np.array(steps, np.int64).reshape(len(steps), len(texts))
    rows = zip(columns.T, begins, strict=True)
    written = [row[begin : begin + count] for row, begin in rows]
    return [w[: int(np.append(w == end, True).argmax()) + 1] for w in written]
