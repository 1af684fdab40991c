"""Chapter 2: how parameters begin.

Each initialiser is a function of a shape and a seeded generator, and draws on the host in float32,
so a model begins with the same numbers on every device. Next: parameters and the modules that own
them (nn/module.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Initialiser = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 0: biases, and what should have no effect at first."""
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """All 1: gains."""
    return np.ones(shape, np.float32)


def normal(std: float) -> Initialiser:
    """N(0, std²)."""
    return lambda shape, rng: rng.standard_normal(shape, np.float32) * np.float32(std)


A5 = normal(0.02)
"""How CS224N assignment 5 begins every matrix and the embedding (its positions begin at 0)."""


def uniform(bound: float) -> Initialiser:
    """Uniform between -bound and bound."""
    return lambda shape, rng: (rng.random(shape, np.float32) * 2 - 1) * np.float32(bound)


def xavier_uniform(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Uniform within ±√(6/(fan_in + fan_out)), which keeps the size of signals both ways.

    Shapes: (..., fan_in, fan_out). Source: Glorot and Bengio 2010, equation 16.
    """
    return uniform(math.sqrt(6 / (shape[-2] + shape[-1])))(shape, rng)
