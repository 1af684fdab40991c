"""Chapter 2: who may look at whom.

Modules work on each position alone; attention lets positions look at each other. A mask says who
may: a boolean array called `allowed`, True where query t may attend to key s. There is no other
convention in this package. Next: the contract that every attention block keeps
(attention/block.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array


def causal(queries: int, keys: int, *, align: str = "end", xp: Any = np) -> Array:
    """No query may look into its future.

    With as many queries as keys there is one such mask. Otherwise the queries have to be placed:

    - align="end": the last query stands at the last key. So it is when text is continued and the
      earlier keys come from a cache. With more queries than keys, the first ones see nothing.
    - align="start": the first query stands at the first key, so query t sees keys 0..t. So it is
      in A5's Perceiver.

    Shapes: (T, S). Raises: ValueError for another alignment.
    """
    if align not in ("end", "start"):
        raise ValueError(f"causal: align must be 'end' or 'start'; got {align!r}")
    shift = keys - queries if align == "end" else 0
    return xp.arange(keys)[None, :] <= xp.arange(queries)[:, None] + shift


def padding(lengths: Any, keys: int) -> np.ndarray:
    """Only the first `lengths[b]` keys of sequence b are real.

    Shapes: lengths (B,) -> (B, 1, 1, S), which broadcasts over heads and queries.
    """
    return np.arange(keys)[None, None, None, :] < np.asarray(lengths)[:, None, None, None]
