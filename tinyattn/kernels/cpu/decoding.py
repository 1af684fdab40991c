"""Engine room, CPU: one step of generation with a cache, on arrays instead of tensors.

With one new position per sequence the operations are so small that the work around them takes as
long: a tensor for each result, and checks of arguments. Here the same kernels get the arrays
directly, so the logits have the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    It also computes if its attention type is another one, if a kernel is switched off, or if an
    observer wants to see every operation.
    """
    full = cache and cache[0].length == model.max_length  # then the model raises an error
    if not cache or full or ids.shape[1] != 1 or off or observers or not _usual(model):
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


def _usual(model: GPT) -> bool:
    """Whether this is a GPT of layers with multi-head attention, none of them of a user."""
    from tinyattn.attention.multihead import MultiHead
    from tinyattn.models.gpt import GPT
    from tinyattn.models.layer import Layer
    from tinyattn.nn import Rotary

    if type(model) is not GPT or model.perceiver is not None:
        return False
    rotary = {type(layer.attention.rotary) for layer in model.layers}
    types = {(type(layer), type(layer.attention)) for layer in model.layers}
    return types == {(Layer, MultiHead)} and rotary <= {Rotary, type(None)}


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
