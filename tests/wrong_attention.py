"""Bugs of public reports, created again as small wrong functions, and the law that each breaks.

`attention` is right. Each other function has one mistake of it, and `BUGS` names its report.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Bug(NamedTuple):
    """A wrong function."""

    f: Callable[..., Array]
    report: str  # owner/name#number
    law: str  # the first that it breaks
    options: Mapping[str, Any] = MappingProxyType({})


def masked(q: Array, k: Array, mask: Any, causal: bool) -> Array:
    """Which keys each query may attend to."""
    T, S = q.shape[-2], k.shape[-2]
    allowed = np.ones((T, S), bool) if mask is None else mask
    return allowed & np.tri(T, S, S - T, dtype=bool) if causal else allowed


def softmax(scores: Array, axis: int = -1) -> Array:
    """Zeros for a row of -∞."""
    largest = scores.max(axis=axis, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    return e / np.where(largest == -np.inf, 1, e.sum(axis=axis, keepdims=True))


def attention(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None,
    dropout: float = 0.0,
) -> Array:  # fmt: skip
    """It is right."""
    factor = 1 / max(1, q.shape[-1]) ** 0.5 if scale is None else scale
    allowed = masked(q, k, mask, causal)
    with np.errstate(invalid="ignore"):
        scores = np.where(allowed, q @ k.swapaxes(-1, -2) * factor, -np.inf)
    p = softmax(scores)
    if dropout:
        p = np.where(np.random.default_rng().random(p.shape) < dropout, 0, p / (1 - dropout))
    seen = np.where(np.isfinite(v), v, 0)
    return (p @ seen).astype(q.dtype)


# Masks ---------------------------------------------------------------------------------------


def nan_without_a_key(q: Array, k: Array, v: Array, mask: Any = None, **options: Any) -> Array:
    y = attention(q, k, v, mask, **options)
    allowed = masked(q, k, mask, options.get("causal", False))
    return np.where(allowed.any(axis=-1, keepdims=True) | (k.shape[-2] == 0), y, np.nan)


def mean_without_a_key(q: Array, k: Array, v: Array, mask: Any = None, **options: Any) -> Array:
    y = attention(q, k, v, mask, **options)
    allowed = masked(q, k, mask, options.get("causal", False))
    mean = v.mean(axis=-2, keepdims=True) if k.shape[-2] else 0
    return np.where(allowed.any(axis=-1, keepdims=True), y, mean).astype(q.dtype)


def nan_behind_a_mask(q: Array, k: Array, v: Array, mask: Any = None, **options: Any) -> Array:
    y = attention(q, k, v, mask, **options)
    touched = np.isnan(k).any(axis=(-1, -2), keepdims=True) | np.isnan(v).any(
        axis=(-1, -2), keepdims=True
    )
    return np.where(touched, np.nan, y)


def from_the_top_left(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, **options: Any
) -> Array:
    past = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    allowed = past if mask is None else past & mask
    return attention(q, k, v, allowed if causal else mask, **options)


def inverted(q: Array, k: Array, v: Array, mask: Any = None, **options: Any) -> Array:
    return attention(q, k, v, None if mask is None else ~mask, **options)


def filled(q: Array, k: Array, v: Array, mask: Any, causal: bool, scale: Any, by: float) -> Array:
    """Attention whose masked scores are `by`, and not -∞."""
    factor = 1 / max(1, q.shape[-1]) ** 0.5 if scale is None else scale
    with np.errstate(invalid="ignore"):
        scores = np.where(masked(q, k, mask, causal), q @ k.swapaxes(-1, -2) * factor, by)
    return (softmax(scores) @ v).astype(q.dtype)


def filled_with_minus_1e4(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    return filled(q, k, v, mask, causal, scale, -1e4)


def added_minus_1e4(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    factor = 1 / max(1, q.shape[-1]) ** 0.5 if scale is None else scale
    penalty = np.where(masked(q, k, mask, causal), 0, -1e4)
    return (softmax(q @ k.swapaxes(-1, -2) * factor + penalty) @ v).astype(q.dtype)


def filled_with_zero(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    return filled(q, k, v, mask, causal, scale, 0.0)


def filled_with_minus_1e_minus_9(
    q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: Any = None
) -> Array:
    return filled(q, k, v, mask, causal, scale, -1e-9)


# Softmax, scale, precision ---------------------------------------------------------------------


def over_the_queries(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) / max(1, q.shape[-1]) ** 0.5
    return (softmax(scores, axis=-2) @ v).astype(q.dtype)


def divided_by_the_width(q: Array, k: Array, v: Array, scale: Any = None, **options: Any) -> Array:
    return attention(q, k, v, scale=1 / max(1, q.shape[-1]) if scale is None else scale, **options)


def of_all_heads(q: Array, k: Array, v: Array, scale: Any = None, **options: Any) -> Array:
    heads = max(1, q.shape[-3]) if q.ndim > 2 else 4
    factor = (heads * max(1, q.shape[-1])) ** -0.5 if scale is None else scale
    return attention(q, k, v, scale=factor, **options)


def weights_in_float16(q: Array, k: Array, v: Array) -> Array:
    p = softmax(q @ k.swapaxes(-1, -2) / max(1, q.shape[-1]) ** 0.5)
    return (p.astype(np.float16).astype(q.dtype) @ v).astype(q.dtype)


# Dropout -------------------------------------------------------------------------------------


def dropout_of_the_output(
    q: Array, k: Array, v: Array, dropout: float = 0.0, **options: Any
) -> Array:
    y = attention(q, k, v, **options)
    keep = np.random.default_rng().random((*y.shape[:-1], 1)) >= dropout
    return y * keep / (1 - dropout)


def dropout_at_inference(q: Array, k: Array, v: Array, **options: Any) -> Array:
    return attention(q, k, v, dropout=0.1, **options)


# Who sees whom -------------------------------------------------------------------------------


def causal_linformer(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """Two mixtures of all keys, of which query t sees the first t + 1."""
    n = k.shape[-2]
    mix = np.random.default_rng(n).standard_normal((min(2, n), n))
    return attention(q, mix @ k, mix @ v, np.tri(n, len(mix), dtype=bool) if causal else None)


def block_means(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """To each key is added the mean of its block of two."""
    k = k.copy()
    for i in range(0, k.shape[-2], 2):
        k[..., i : i + 2, :] += k[..., i : i + 2, :].mean(axis=-2, keepdims=True)
    return attention(q, k, v, causal=causal)


# Memory --------------------------------------------------------------------------------------


def reads_memory_in_order(q: Array, k: Array, v: Array) -> Array:
    """It takes the elements of v as they are in memory, whatever the strides are."""
    if v.flags.c_contiguous or not v.size:
        return attention(q, k, v)
    base = np.moveaxis(v, -1, -2) if v.strides[-1] > v.strides[-2] else v
    return attention(q, k, np.ascontiguousarray(base).reshape(v.shape))


# fmt: off
ONLY = {"exact", "float64", "batch", "rectangular"}
MASKS = ONLY | {"mask", "causal", "scale"}
BUGS = [
    Bug(nan_without_a_key, "pytorch/pytorch#103963", "without_a_key_all_is_zero"),
    Bug(mean_without_a_key, "NVIDIA/apex#1390", "without_a_key_all_is_zero"),
    Bug(nan_behind_a_mask, "pytorch/pytorch#101967", "a_masked_nan_has_no_effect"),
    Bug(from_the_top_left, "pytorch/pytorch#103082", "a_causal_mask_ends_at_the_last_key"),
    Bug(inverted, "lucidrains/x-transformers#160", "true_means_may_attend"),
    Bug(filled_with_minus_1e4, "TransformerLensOrg/TransformerLens#318", "a_mask_beats_any_score",
        {"no_key": "mean", "supports": MASKS}),
    Bug(added_minus_1e4, "huggingface/transformers#17306", "a_mask_beats_any_score",
        {"no_key": "mean", "supports": MASKS}),
    Bug(filled_with_minus_1e_minus_9, "Shujun-He/RibonanzaNet#5", "true_means_may_attend",
        {"no_key": "mean", "supports": MASKS}),
    Bug(filled_with_zero, "hyunwoongko/transformer#10", "true_means_may_attend",
        {"no_key": "mean", "supports": MASKS}),
    Bug(over_the_queries, "PetrochukM/PyTorch-NLP#2", "weights_of_a_query_sum_to_one",
        {"supports": ONLY}),
    Bug(divided_by_the_width, "thegregyang/NTK4A#3", "scores_are_divided_by_the_root_of_the_width"),
    Bug(of_all_heads, "omihub777/ViT-CIFAR#11", "scores_are_divided_by_the_root_of_the_width"),
    Bug(weights_in_float16, "huggingface/candle#3727", "float32_is_enough", {"supports": ONLY}),
    Bug(dropout_of_the_output, "nikhilbarhate99/min-decision-transformer#2",
        "dropout_drops_single_weights", {"supports": ONLY | {"dropout"}}),
    Bug(dropout_at_inference, "suno-ai/bark#662", "inputs_are_not_changed"),
    Bug(causal_linformer, "tatp22/linformer-pytorch#16", "later_positions_have_no_influence",
        {"supports": {"causal", "float64", "batch"}}),
    Bug(block_means, "karpathy/nanochat#844", "later_positions_have_no_influence",
        {"supports": {"causal", "float64", "batch"}}),
    Bug(reads_memory_in_order, "pytorch/pytorch#187506", "memory_order_has_no_effect",
        {"supports": ONLY | {"strides"}}),
]
