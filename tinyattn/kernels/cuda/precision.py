"""Engine room, CUDA: the precision of matrix products (the setting matmul_precision).

A GPU's matrix units (tensor cores) are several times as fast if they may round their inputs: to
TF32, which keeps 11 of the 24 bits of a float32, or to bfloat16, which keeps 8. Sums are float32,
at least within the parts of a long sum. So a product of random matrices is off by 3e-4 of its size
with TF32, and by 3e-3 with bfloat16, whose results are rounded once more. Parameters, optimizer
state, and all that is no product of a linear map stay float32. So do the matrix products of
attention: they are 8 % of those of a step at the size of A5 (assignment 5 of Stanford CS224N).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.dispatch import FORMULAS, choose
from tinyattn.services import serves

OLDEST = 80
"""The compute capability from which on GPUs have units for both: 8.0, times ten."""
_lock = threading.Lock()
_how = [(object(), "float32")]  # of each open context; the newest, the last one, applies


@serves("cuda")
def why_no_precision(xp: Any, how: str) -> str:
    """Why this GPU cannot compute linear maps with the precision `how`; "" if it can."""
    from tinyattn.training.settings import MATMUL_PRECISIONS

    if how not in MATMUL_PRECISIONS:
        return f"matmul_precision must be one of {MATMUL_PRECISIONS}; got {how!r}"
    if how != "float32" and (why := choose(FORMULAS["linear"], "cuda", (), {})[1]):
        return f"matmul_precision {how!r} needs the kernel of linear maps, and it is {why}"
    if how != "float32" and (has := int(xp.cuda.Device().compute_capability)) < OLDEST:
        return (f"matmul_precision {how!r} needs a GPU of compute capability {OLDEST / 10} or "
                f"more; this one has {has / 10}: take 'float32'")  # fmt: skip
    return ""


@serves("cuda")
@contextmanager
def matmul_precision(xp: Any, how: str) -> Iterator[None]:
    """A context in which float32 linear maps use the precision `how`, in all threads.

    Raises: ValueError for an unknown name, or a precision that the device does not have.
    """
    if why := why_no_precision(xp, how):
        raise ValueError(why)
    mine = object(), how  # contexts may overlap, and end in any order
    _how.append(mine)
    try:
        yield
    finally:
        _how.remove(mine)


def product(xp: Any, a: Array, b: Array) -> Array:
    """The matrix product of two matrices, in the context's precision. Shapes: (N, C) @ (C, F)."""
    how = _how[-1][1]
    if how == "float32" or a.dtype != xp.float32:
        return xp.matmul(a, b)
    if how == "bfloat16":
        import ml_dtypes

        low = np.dtype(ml_dtypes.bfloat16)
        return xp.matmul(a.astype(low), b.astype(low)).astype(xp.float32)
    linalg = xp._core._routines_linalg  # CuPy's only public way is an environment variable
    with _lock:  # it is a setting of the whole process
        before = linalg.get_compute_type(xp.float32)
        linalg.set_compute_type(xp.float32, linalg.COMPUTE_TYPE_TF32)
        try:
            return xp.matmul(a, b)
        finally:
            linalg.set_compute_type(xp.float32, before)
