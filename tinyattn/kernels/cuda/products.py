"""Engine room, CUDA: how exactly a GPU multiplies matrices.

Its units for matrices are several times as fast if they may round what they multiply: to TF32,
which keeps 11 of the 24 bits of a float32, or to bfloat16, which keeps 8. Sums are float32, at
least within the parts that a long sum is divided into. So a product of random matrices is off by
3e-4 of its size with TF32, and by 3e-3 with bfloat16, whose results are rounded once more.
Parameters, moments, and whatever is no product of a linear map stay float32, also the products of
attention: they are 8 % of a step's at the size of A5.
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
"""The compute capability, 8.0, from which on GPUs have units for both."""
_lock = threading.Lock()
_how = [(object(), "float32")]  # of each context, the newest last, which decides


@serves("cuda")
def missing_products(xp: Any, how: str) -> str:
    """Why this GPU cannot compute linear maps so; empty if it can."""
    from tinyattn.training.settings import PRODUCTS

    if how not in PRODUCTS:
        return f"products must be one of {PRODUCTS}; got {how!r}"
    if how != "float32" and (why := choose(FORMULAS["linear"], "cuda", (), {})[1]):
        return f"products {how!r} need the kernel of linear maps, and it is {why}"
    if how != "float32" and (has := int(xp.cuda.Device().compute_capability)) < OLDEST:
        return (f"products {how!r} need a GPU of compute capability {OLDEST / 10} or more; "
                f"this one has {has / 10}: take 'float32'")  # fmt: skip
    return ""


@serves("cuda")
@contextmanager
def products_in(xp: Any, how: str) -> Iterator[None]:
    """A context in which linear maps of float32 numbers are computed so, in all threads.

    Raises: ValueError for another name, or for products that the device does not have.
    """
    if why := missing_products(xp, how):
        raise ValueError(why)
    mine = object(), how  # contexts may overlap, and end in any order
    _how.append(mine)
    try:
        yield
    finally:
        _how.remove(mine)


def product(xp: Any, a: Array, b: Array) -> Array:
    """The matrix product of two matrices, computed as the context says. Shapes: (N, C) @ (C, F)."""
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
