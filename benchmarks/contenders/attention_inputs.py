"""What attention is given: one text of T positions, 8 heads of 32, and how answers are compared."""

import argparse
import math

import numpy as np

WARM_UP = 64
"""Positions of a first text, small, so that what a library loads at first use is there before
memory is measured."""


def inputs(T: int) -> list[np.ndarray]:
    """Queries, keys, values, the gradient of the answers and a probe, each (1, 8, T, 32)."""
    return [np.random.default_rng(seed).standard_normal((1, 8, T, 32), np.float32)
            for seed in range(5)]  # fmt: skip


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--sdpa", action="store_true", help="fused attention, in PyTorch")
    return parser.parse_args()


def summary(probe: np.ndarray, *arrays: np.ndarray) -> list[float]:
    """A number for each array: its product with the probe, about as large as one of its elements.

    A wrong size, sign or order changes it.
    """
    return [float(np.vecdot(a, probe).sum(dtype=np.float64)) / math.sqrt(a.size) for a in arrays]
