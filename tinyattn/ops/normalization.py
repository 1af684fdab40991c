"""Chapter 3: layer normalization.

It keeps the activations of a deep network at one scale. Each row is shifted to mean 0 and scaled to
variance 1, then multiplied by a learned gain and shifted by a learned bias
(derivations/04_layer_norm.md). Next: GELU, the activation function of a GPT (ops/gelu.py).
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


def _check(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> None:
    """Raises: ValueError unless x is (..., C), C at least 1, and gain and bias are (C,)."""
    shapes = [getattr(a, "shape", type(a).__name__) for a in (gain, bias)]
    if x.ndim < 1 or x.shape[-1] == 0:
        raise ValueError(f"layer_norm: x must be (..., C) with C at least 1; got {x.shape}")
    if not shapes[0] == shapes[1] == x.shape[-1:]:
        raise ValueError(
            f"layer_norm: gain and bias must be {x.shape[-1:]} for x {x.shape}; "
            f"got {shapes[0]} and {shapes[1]}; for a layer norm without them, pass ones and zeros"
        )


@op(check=_check)
def layer_norm(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> Any:
    """Normalize each row to mean 0 and variance 1, then scale and shift it.

    Forward:  y = h·gain + bias, h = (x - m)·r, r = 1/√(v + eps), m and v the row's mean, variance
    Backward: dh = g·gain; dx = r·(dh - mean(dh) - h·mean(dh·h)); dgain = Σ g·h; dbias = Σ g
    Shapes:   x (..., C), gain (C,) (PyTorch: weight), bias (C,) -> y (..., C)
    Raises:   ValueError unless gain and bias are (C,)
    Source:   Ba, Kiros and Hinton 2016, equation 4; eps as PyTorch's default

    y is wrong if a row's squares overflow, or underflow with eps = 0. Kernels scale such rows.
    """

    def mean(a: Array) -> Array:
        return a.mean(axis=-1, keepdims=True)

    centred = x - mean(x)
    r = 1 / xp.sqrt(mean(centred * centred) + eps)
    h = centred * r
    rows = tuple(range(x.ndim - 1))

    def dx(g: Array) -> Array:
        dh = g * gain
        return r * (dh - mean(dh) - h * mean(dh * h))

    return h * gain + bias, (dx, lambda g: (g * h).sum(axis=rows), lambda g: g.sum(axis=rows))
