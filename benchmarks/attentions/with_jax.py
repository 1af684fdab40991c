"""Attentions on JAX arrays: of JAX, flax, Keras and equinox."""

import math
import os
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = (  # compile fast: every shape is compiled, and computed a few times
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_multi_thread_eigen=false"
)

import equinox
import flax.linen
import jax
import keras
from jax import numpy as jnp
from subject import ALL, Subject

Array = jax.Array


def wider(x: Array, width: int) -> Array:
    """x with zeros behind its elements."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])])


def one_head(x: Array) -> Array:
    """(.., T, D) -> (B, T, 1, D), as these libraries want it."""
    *lead, T, D = x.shape
    return x.reshape(math.prod(lead), T, 1, D)


def head_mask(mask: Any) -> Any:
    """(.., T, S) -> (B, 1, T, S)"""
    if mask is None:
        return None
    *lead, T, S = mask.shape
    return mask.reshape(math.prod(lead), 1, T, S)


def of_equal_widths(
    attention: Any, q: Array, k: Array, v: Array, mask: Any, causal: bool, scale: Any
) -> Array:
    """The output of an attention of four axes that wants equal widths."""
    (*lead, T, D), E = q.shape, v.shape[-1]
    scale = max(1, D) ** -0.5 if scale is None else scale
    q, k, v = (one_head(wider(x, max(D, E))) for x in (q, k, v))
    y = attention(q, k, v, mask=head_mask(mask), is_causal=causal, scale=scale)
    return y.reshape(*lead, T, max(D, E))[..., :E]


def dot_product(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    """jax.nn.dot_product_attention."""
    return of_equal_widths(jax.nn.dot_product_attention, q, k, v, mask, causal, scale)


def linen(q: Array, k: Array, v: Array, mask: Any = None) -> Array:
    """flax.linen.dot_product_attention."""
    *lead, T, _ = q.shape
    y = flax.linen.dot_product_attention(*(one_head(x) for x in (q, k, v)),
                                         mask=head_mask(mask))  # fmt: skip
    return y.reshape(*lead, T, v.shape[-1])


def keras_ops(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    """keras.ops.dot_product_attention."""
    return of_equal_widths(keras.ops.dot_product_attention, q, k, v, mask, causal, scale)


def keras_layer(q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False) -> Array:
    """keras.layers.MultiHeadAttention with one head and identity matrices.

    Widths are padded: Keras 3.15.1 with JAX gives an error if `value_dim` differs from `key_dim`.
    """
    (*lead, T, D), E = q.shape, v.shape[-1]
    C = max(D, E)
    q = q * (C / max(1, D)) ** 0.5  # it divides by the root of the padded width
    layer = keras.layers.MultiHeadAttention(1, C, C, use_bias=False, dtype=str(q.dtype))
    q, k, v = (one_head(wider(x, C))[:, :, 0] for x in (q, k, v))
    layer.build(q.shape, v.shape, k.shape)
    shapes = (C, 1, C), (C, 1, C), (C, 1, C), (1, C, C)
    layer.set_weights([jnp.eye(C).reshape(shape) for shape in shapes])
    mask = None if mask is None else head_mask(mask)[:, 0]
    y = layer(q, v, k, attention_mask=mask, use_causal_mask=causal)
    return y.reshape(*lead, T, C)[..., :E]


def equinox_layer(q: Array, k: Array, v: Array, mask: Any = None) -> Array:
    """equinox.nn.MultiheadAttention with one head and identity matrices.

    It takes one sequence; its documentation says to use jax.vmap for several.
    """
    (*lead, T, D), E = q.shape, v.shape[-1]
    layer = equinox.nn.MultiheadAttention(
        1, D, key_size=D, value_size=E, output_size=E, qk_size=D, vo_size=E, dtype=q.dtype,
        key=jax.random.key(0),
    )  # fmt: skip
    layer = equinox.tree_at(matrices, layer, [jnp.eye(n, dtype=q.dtype) for n in (D, D, E, E)])
    sequences = [x.reshape(math.prod(lead), *x.shape[-2:]) for x in (q, k, v)]
    if mask is None:
        y = jax.vmap(layer)(*sequences)
    else:
        y = jax.vmap(layer)(*sequences, mask.reshape(math.prod(lead), *mask.shape[-2:]))
    return y.reshape(*lead, T, E)


def matrices(layer: equinox.nn.MultiheadAttention) -> list[Array]:
    """Its four matrices."""
    projections = layer.query_proj, layer.key_proj, layer.value_proj, layer.output_proj
    return [projection.weight for projection in projections]


JAX: dict[str, Any] = {"arrays": "jax", "no_key": "mean"}
START = JAX | {"causal_from": "start"}
FEW = 3
"""XLA compiles every operation anew for every shape."""
SUBJECTS = [
    Subject("nn.dot_product_attention", "jax", dot_product, ALL - {"float64"}, START, FEW),
    Subject("linen.dot_product_attention", "flax", linen, ALL - {"causal", "scale"}, JAX, FEW),
    Subject("ops.dot_product_attention", "keras", keras_ops, ALL - {"float64"}, START, FEW),
    Subject("layers.MultiHeadAttention", "keras", keras_layer, ALL - {"float64", "scale"},
            START, FEW),
    Subject("nn.MultiheadAttention", "equinox", equinox_layer,
            ALL - {"causal", "scale"}, JAX, FEW),
]  # fmt: skip
