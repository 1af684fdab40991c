"""Chapter 6: other initial values of parameters."""

from __future__ import annotations

import math

import numpy as np

from tinyattn.nn.linear_layer import Initializer


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 0: for biases, and for parameters that should have no effect at first."""
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 1: for gains (PyTorch: the weight of a LayerNorm)."""
    return np.ones(shape, np.float32)


def uniform(bound: float) -> Initializer:
    """Uniform between -bound and bound."""
    return lambda shape, rng: (rng.random(shape, np.float32) * 2 - 1) * np.float32(bound)


def xavier_uniform(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Uniform within ±√(6/(fan_in + fan_out)): activations and gradients keep their variance.

    Shapes: (..., fan_in, fan_out). Source: Glorot and Bengio 2010, equation 16.
    """
    return uniform(math.sqrt(6 / (shape[-2] + shape[-1])))(shape, rng)
