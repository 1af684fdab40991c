"""Engine room, CPU: one step of generation with a cache, on arrays instead of tensors.

With one new position per sequence the operations are so small that the work around them takes as
long: a tensor for each result, and checks of arguments. Here the same kernels get the arrays
directly, so the logits have the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tinyattn import ops
from tinyattn.backend import Array
from tinyattn.dispatch import choose, observers, off
from tinyattn.services import BOOK, serves

if TYPE_CHECKING:
    from tinyattn.attention.cache import KeyValueCache
    from tinyattn.models.gpt import GPT
    from tinyattn.nn import LayerNorm, Linear


@serves("cpu")
def next_logits(
    xp: Any, model: GPT, ids: np.ndarray, cache: list[KeyValueCache] | None
) -> np.ndarray:
    """`generate.next_logits`; the model itself computes more than one position, and without cache.

    It also computes if it has a part that this file does not know, if a kernel is switched off, or
    if an observer wants to see every operation.
    """
    full = cache and cache[0].length == model.max_length  # then the model raises an error
    if not cache or full or ids.shape[1] != 1 or off or observers or not _knows(model, cache):
        by_the_model: np.ndarray = BOOK["next_logits"](xp, model, ids, cache)
        return by_the_model
    start = cache[0].length
    x = model.embedding.weight.data[model.checked(ids)[:, 0]]
    if model.positions is not None:
        x += model.positions.weight.data[start]
    for layer, store in zip(model.layers, cache, strict=True):
        x += _attention(_norm(x, layer.norm_1), layer.attention, store)
        hidden = _linear(_norm(x, layer.norm_2), layer.feedforward.expand)
        hidden = _value(ops.gelu, hidden, exact=layer.feedforward.exact_gelu)
        x += _linear(hidden, layer.feedforward.contract)
    logits: np.ndarray = _linear(_norm(x, model.norm), model.head)
    return logits


_of_known: WeakKeyDictionary[KeyValueCache, bool] = WeakKeyDictionary()
"""Whether a cache is of a known model, so that this is found out once in a generation."""


def _knows(model: GPT, cache: list[KeyValueCache]) -> bool:
    """`_known` of the model, found out at the first token."""
    if cache[0] not in _of_known:
        _of_known[cache[0]] = _known(model)
    return _of_known[cache[0]]


def _known(part: Any) -> bool:
    """Whether this file computes what a module does, and all modules in it: none is a user's own.

    The types are imported here, because the book imports this package before them.
    """
    from tinyattn import nn
    from tinyattn.attention.multihead import MultiHead
    from tinyattn.models.gpt import GPT
    from tinyattn.models.layer import Layer

    types = {GPT, Layer, MultiHead, nn.Dropout, nn.Embedding, nn.FeedForward, nn.LayerNorm,
             nn.LearnedPositions, nn.Linear, nn.Rotary}  # fmt: skip
    if type(part) not in types:
        return False
    for value in vars(part).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, nn.Module | nn.Rotary):
                if not _known(one):
                    return False
            elif callable(one):  # a method that was replaced in this one object
                return False
    return True


def _value(operation: Any, *arrays: Array, **options: Any) -> Array:
    """The value of an operation, by the kernel that computes it for tensors."""
    arguments = np, *arrays
    run, _ = choose(operation.__wrapped__, "cpu", arguments, options)
    return run(*arguments, **options)[0]


def _linear(x: Array, module: Linear) -> Array:
    bias = None if module.bias is None else module.bias.data
    return _value(ops.linear, x, module.weight.data, bias)


def _norm(x: Array, module: LayerNorm) -> Array:
    return _value(ops.layer_norm, x, module.gain.data, module.bias.data, eps=module.eps)


def _attention(x: Array, block: Any, store: KeyValueCache) -> Array:
    """The output of a `MultiHead` for one new position of each sequence: (B, C) -> (B, C)."""
    start, B = store.length, len(x)
    q, k, v = (
        _linear(x, module).reshape(B, block.heads, 1, block.query_width)
        for module in (block.query, block.key, block.value)
    )
    if block.rotary is not None:
        cos, sin = block.rotary.angles("cpu", x.dtype, start, start + 1)
        q, k = (_value(ops.rotate, a, cos=cos, sin=sin) for a in (q, k))
    y = _value(ops.attention, q, *store.put(k, v), None, causal=True, scale=block.scale)
    return _linear(y.reshape(B, block.width), block.out)
