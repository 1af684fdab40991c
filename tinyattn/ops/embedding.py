"""Chapter 3: embedding, a table with a row for each token.

The first step of a model turns token ids into vectors. If an id occurs twice, its row gets the sum
of both gradients. Next: hooks, which look inside a model (nn/hooks.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.op import Index, op


def _check(xp: Any, weight: Array, ids: Index) -> None:
    """Raises: ValueError unless the table is a matrix; IndexError for an id out of range, but only
    on the CPU: on a GPU this check would make the program wait."""
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight must be (V, C), a row for each id; got {weight.shape}")
    if xp is np and ids.size and (ids.min() < 0 or ids.max() >= len(weight)):
        raise IndexError(
            f"embedding: ids must lie in 0..{len(weight) - 1}; got {ids.min()}..{ids.max()}"
        )


@op(check=_check)
def embedding(xp: Any, weight: Array, ids: Index) -> Any:
    """The row of the table for each id.

    Forward:  y_i = weight[ids_i]
    Backward: dweight_v = Σ of g_i over all i with ids_i = v
    Shapes:   weight (V, C), ids (...) -> y (..., C)
    Raises:   TypeError if ids are not integers; ValueError unless the table is a matrix; IndexError
              if an id is not in 0..V-1 (on a GPU the row is then id mod V, without an error)
    """

    def dweight(g: Array) -> Array:
        out = xp.zeros_like(weight)
        xp.add.at(out, ids, g)
        return out

    return weight[ids], (dweight, None)
