"""Engine room, measuring: how many multiply-adds an operation needs.

A multiply-add is one multiplication and one addition, as in a sum of products: two floating-point
operations. Four operations consist of multiply-adds. The work of all others is small beside these,
and is counted as 0. The counts follow from the shapes, and for attention also from the mask. The
count of a whole step, and its growth, are in derivations/25_scaling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyattn.backend import Array, asnumpy
from tinyattn.ops.einsum import parse_equation

Count = tuple[int, list[int]]
"""Multiply-adds of one forward call, and of the gradient of each of its arrays."""


def multiply_adds(name: str, arrays: Sequence[Any], options: Mapping[str, Any], y: Array) -> Count:
    """The multiply-adds that the op `name` needs for `y`, and for the gradients of these arrays.

    Only what the result needs is counted. Pairs of a query and a key that a mask hides are left
    out, even if the op computes some of them. Work that backward repeats counts once. Sums have
    no multiplications: the gradient of a bias counts 0.
    """
    rule = _RULES.get(name)
    return rule(arrays, options, y) if rule else (0, [0] * len(arrays))


def _matmul(arrays: Sequence[Any], options: Mapping[str, Any], y: Array) -> Count:
    """Each element of y is a sum over the inner axis; each gradient is as large a product."""
    products = y.size * arrays[0].shape[-1]
    return products, [products, products]


def _linear(arrays: Sequence[Any], options: Mapping[str, Any], y: Array) -> Count:
    products, gradients = _matmul(arrays, options, y)
    return products, [*gradients, 0]


def _einsum(arrays: Sequence[Any], options: Mapping[str, Any], y: Array) -> Count:
    """One term for each combination of indices; a term of n factors has n - 1 products."""
    inputs, output, sizes = parse_equation(options["equation"], [tuple(a.shape) for a in arrays])

    def products(factors: list[str]) -> int:
        return (len(factors) - 1) * math.prod(sizes[letter] for letter in {*"".join(factors)})

    others = [inputs[:i] + inputs[i + 1 :] for i in range(len(inputs))]
    return products(inputs), [products([output, *rest]) for rest in others]


def _attention(arrays: Sequence[Any], options: Mapping[str, Any], y: Array) -> Count:
    """A pair takes D multiply-adds for its score and E for its weighted value. Backward takes each
    twice: for dq and dk, for dv and the gradient of the weights, which is counted with dq."""
    q, k, v, *masks = arrays
    D, E, (*lead, T, _), S = q.shape[-1], v.shape[-1], y.shape, k.shape[-2]
    causal = options.get("causal", False)
    if masks and masks[0] is not None:
        shown = asnumpy(masks[0]) & (np.tri(T, S, S - T, dtype=bool) if causal else True)
        shown = np.broadcast_to(shown, (*shown.shape[:-2], T, S))
        pairs = np.count_nonzero(shown) * math.prod(lead) // math.prod(shown.shape[:-2])
    else:
        last = np.arange(S - T, S) if causal else np.full(T, S - 1)  # last key of each query
        pairs = int((last + 1).clip(0).sum()) * math.prod(lead)
    return pairs * (D + E), [pairs * (D + E), pairs * D, pairs * E, 0]


_RULES: dict[str, Callable[[Sequence[Any], Mapping[str, Any], Array], Count]] = {
    "matmul": _matmul,
    "linear": _linear,
    "einsum": _einsum,
    "attention": _attention,
}
