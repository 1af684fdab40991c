"""Chapter 2: attention masks, or which positions a query may attend to.

Attention connects positions; all other layers treat each position separately. An attention mask is
a boolean array, always called `allowed` (PyTorch: attn_mask), which is True where query t may
attend to key s. Next: the interface of attention blocks (attention/block.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array


def causal(queries: int, keys: int, *, align: str = "end", xp: Any = np) -> Array:
    """The causal mask: a query may attend to keys up to its own position, not to later ones.

    If there are more or fewer keys than queries, `align` says which positions the queries have:

    - "end": the last query has the position of the last key, as in generation with a cache. If
      there are more queries than keys, the first queries may attend to no key.
    - "start": the first query has the position of the first key, so query t may attend to keys
      0..t, as in PyTorch's is_causal and in a Perceiver (models/perceiver.py).

    Shapes: (T, S). Raises: ValueError for another alignment.
    """
    if align not in ("end", "start"):
        raise ValueError(f"causal: align must be 'end' or 'start'; got {align!r}")
    offset = keys - queries if align == "end" else 0
    return xp.arange(keys)[None, :] <= xp.arange(queries)[:, None] + offset


def padding(lengths: Any, keys: int) -> np.ndarray:
    """The padding mask: True for the first `lengths[b]` keys of sequence b, False for padding.

    Shapes: lengths (B,) -> (B, 1, 1, S), which broadcasts over heads and queries.
    """
    return np.arange(keys)[None, None, None, :] < np.asarray(lengths)[:, None, None, None]
