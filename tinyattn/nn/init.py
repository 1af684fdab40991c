"""Chapter 6: other ways in which parameters begin."""

from __future__ import annotations

import math

import numpy as np

from tinyattn.nn.linear import Initialiser


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 0: biases, and what should have no effect at first."""
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 1: gains."""
    return np.ones(shape, np.float32)


def uniform(bound: float) -> Initialiser:
    """Uniform between -bound and bound."""
    return lambda shape, rng: (rng.random(shape, np.float32) * 2 - 1) * np.float32(bound)


def xavier_uniform(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Uniform within ±√(6/(fan_in + fan_out)), which keeps the size of signals both ways.

    Shapes: (..., fan_in, fan_out). Source: Glorot and Bengio 2010, equation 16.
    """
    return uniform(math.sqrt(6 / (shape[-2] + shape[-1])))(shape, rng)
