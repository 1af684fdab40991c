"""Chapter 6: who can know of whom, found by trying.

Blocks say of themselves whether they keep from the future. Here nothing is believed: change the
input at one position, and see which outputs change.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from tinyattn.attention.block import AttentionBlock
from tinyattn.graph import no_grad
from tinyattn.noise import generator
from tinyattn.tensor import Tensor


def influence(block: AttentionBlock, length: int, causal: bool, *, seed: int = 0) -> np.ndarray:
    """Whether output t changes with input s: (T, T) boolean.

    A copy of the block is tried, with other parameters, random and large, in float64: those that
    training begins with are so small that an influence could be lost in rounding. One that is not
    there is exactly zero, since a mask multiplies it with zero and all else is computed as before.
    """
    rng, block = generator(seed), copy.deepcopy(block)
    randomize(block, rng)
    # As many sequences as positions; number s is changed at position s.
    x_TTC = np.tile(rng.standard_normal((length, block.width)), (length, 1, 1))
    changed_TTC, each = x_TTC.copy(), np.arange(length)
    changed_TTC[each, each] = rng.standard_normal((length, block.width))
    device = block.parameters()[0].device
    with no_grad():
        before, after = (
            block(Tensor(x, device=device), causal=causal).numpy() for x in (x_TTC, changed_TTC)
        )
    differs: np.ndarray = (before != after).any(axis=-1)
    return differs.T


def randomize(block: AttentionBlock, rng: np.random.Generator, *, bias: float = 1.0) -> None:
    """Give a block large random parameters in float64: unlike new ones, these hide nothing.

    Args: bias: how large biases are.
    """
    block.astype("float64")
    for parameter in block.parameters():
        # Sums over the first axis then have variance 1, and scores of a few nats.
        size = 1 / math.sqrt(parameter.shape[0]) if parameter.ndim > 1 else bias
        parameter.data = rng.standard_normal(parameter.shape) * size
