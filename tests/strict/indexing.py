"""The elements that the key in x[key] = values selects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def index_arrays(key: tuple[Any, ...], shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, int]]:
    """Every integer array in `key`, with the length of the axis it picks positions from.

    A mask selects the positions where it is true, one array for each axis that it covers.
    """
    covered = sum(axes_covered(part) for part in key)
    axis = 0
    for part in key:
        if part is Ellipsis:
            axis += len(shape) - covered
        elif is_mask(part):
            for offset, positions in enumerate(np.nonzero(part)):
                yield positions, shape[axis + offset]
        elif isinstance(part, np.ndarray) and part.dtype.kind in "iu":
            yield part.astype(np.intp), shape[axis]
        axis += axes_covered(part)


def axes_covered(part: Any) -> int:
    """How many axes of the array one part of a key uses up."""
    if part is None or part is Ellipsis:
        return 0
    return int(part.ndim) if is_mask(part) else 1


def is_mask(part: Any) -> bool:
    """Whether a part of a key is an array of booleans."""
    return isinstance(part, np.ndarray) and part.dtype == np.bool_


def points_twice(key: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether some element of the array is named more than once."""
    # Slices and plain integers select the same for all these positions, so repeats stay repeats.
    elements = np.zeros((), np.intp)
    for positions, length in index_arrays(key, shape):
        if length:
            elements = elements * length + positions % length
    in_order = np.sort(elements, axis=None)
    return bool((in_order[1:] == in_order[:-1]).any())
