"""Inputs for attention: one sequence of T positions, 8 heads of width 32; comparing results."""

import argparse
import math

import numpy as np

WARM_UP = 64
"""Length of a first, short sequence. After it a library has loaded what it needs at first use."""


def inputs(T: int) -> list[np.ndarray]:
    """Queries, keys, values, the gradient of the output and a probe, each (1, 8, T, 32)."""
    return [np.random.default_rng(seed).standard_normal((1, 8, T, 32), np.float32)
            for seed in range(5)]  # fmt: skip


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--sdpa", action="store_true", help="fused attention, in PyTorch")
    return parser.parse_args()


def summary(probe: np.ndarray, *arrays: np.ndarray) -> list[float]:
    """A number for each array: its inner product with the probe, divided by √size.

    A wrong size, sign or order of the elements changes it.
    """
    return [float(np.vecdot(a, probe).sum(dtype=np.float64)) / math.sqrt(a.size) for a in arrays]
