"""Chapter 3: a row of a table for each token.

A model's first step turns ids into vectors. An id that occurs twice is read twice, so its row must
receive both gradients. Next: the other layers that every transformer is made of (nn/layers.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Index, op


def _check(xp: Any, weight: Array, ids: Index) -> None:
    """Raises: ValueError for a table of another shape; IndexError for an id out of range, on the
    CPU: a GPU is not to wait for the answer."""
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight must be (V, C), a row for each id; got {weight.shape}")
    if xp is np and ids.size and (ids.min() < 0 or ids.max() >= len(weight)):
        raise IndexError(
            f"embedding: ids must lie in 0..{len(weight) - 1}; got {ids.min()}..{ids.max()}"
        )


@op(check=_check)
def embedding(xp: Any, weight: Array, ids: Index) -> Any:
    """A row of the table for each id.

    Forward:  y_i = weight[ids_i]
    Backward: dweight_v = Σ of g_i over all i with ids_i = v
    Shapes:   weight (V, C), ids (any) -> y (any, C)
    Raises:   TypeError if ids are not integers; ValueError for a table of another shape;
              IndexError if an id is not in 0..V-1, but on a GPU, which is not to wait, it wraps
    """

    def dweight(g: Array) -> Array:
        out = xp.zeros_like(weight)
        xp.add.at(out, ids, g)
        return out

    return weight[ids], (dweight, None)
