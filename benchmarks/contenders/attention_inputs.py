"""Queries, keys, values and the gradient of the answers: one text of T positions, 8 heads of 32."""

import argparse
import math

import numpy as np

WARM_UP = 64
"""Positions of a first text, small, so that what a library loads at first use is there before
memory is measured."""


def inputs(T: int) -> list[np.ndarray]:
    """q, k, v and g, each (1, 8, T, 32)."""
    return [np.random.default_rng(seed).standard_normal((1, 8, T, 32), np.float32)
            for seed in range(4)]  # fmt: skip


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--sdpa", action="store_true", help="fused attention, in PyTorch")
    return parser.parse_args()


def summary(*arrays: np.ndarray) -> list[float]:
    """A number for each array that a mistake would change: its root mean square."""
    return [math.sqrt(np.vdot(a, a) / a.size) for a in arrays]
