"""Chapter 6: which outputs depend on which inputs, found by experiment.

A block states whether it can be causal. This file tests that: it changes the input at one position
and compares the outputs.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from tinyattn.attention.block import AttentionBlock
from tinyattn.graph import no_grad
from tinyattn.rng import generator
from tinyattn.tensor import Tensor


def influence(block: AttentionBlock, length: int, causal: bool, *, seed: int = 0) -> np.ndarray:
    """Whether output t depends on input s: (T, T) boolean.

    The test runs a copy of the block with other parameters, random and large, in float64. The
    initial parameters are so small that an influence could be lost in rounding. If there is no
    influence, the output does not change at all: the masked weights are exactly zero.
    """
    rng, block = generator(seed), copy.deepcopy(block)
    randomize(block, rng)
    # One sequence for each position; sequence s is changed at position s.
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
    """Give a block large random parameters in float64: initial ones could hide an influence.

    Args: bias: standard deviation of the biases.
    """
    block.astype("float64")
    for parameter in block.parameters():
        # Sums over the first axis then have variance 1, and scores of a few nats.
        size = 1 / math.sqrt(parameter.shape[0]) if parameter.ndim > 1 else bias
        parameter.data = rng.standard_normal(parameter.shape) * size
