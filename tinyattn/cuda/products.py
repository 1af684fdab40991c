"""Chapter 3, continued: how exactly a GPU multiplies matrices.

Its units for matrices are several times as fast if they may round what they multiply: to TF32,
which keeps 11 of the 24 bits of a float32, or to bfloat16, which keeps 8. Sums are float32 in any
case. So a product of random matrices is off by 3e-4 of its size with TF32, and by 3e-3 with
bfloat16, whose results are rounded once more. Parameters, moments, and whatever is no product of
a linear map stay float32. Next: linear maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinyattn.backend import Array, on_gpu

PRODUCTS = ("float32", "tf32", "bfloat16")
_how = ["float32"]  # the innermost context's


@contextmanager
def products_in(xp: Any, how: str) -> Iterator[None]:
    """A context in which linear maps of float32 numbers are computed so, in all threads.

    Raises: ValueError for another name, or one that asks for less than float32 without a GPU.
    """
    if how not in PRODUCTS:
        raise ValueError(f"products must be one of {PRODUCTS}; got {how!r}")
    if how != "float32" and not on_gpu(xp):
        raise ValueError(f"products {how!r} are for a GPU; the CPU has 'float32'")
    _how.append(how)
    try:
        yield
    finally:
        _how.pop()


def product(xp: Any, a: Array, b: Array) -> Array:
    """The matrix product of two matrices, computed as the context says. Shapes: (M, K) @ (K, N)."""
    how = _how[-1]
    if how == "float32" or a.dtype != xp.float32:
        return xp.matmul(a, b)
    if how == "bfloat16":
        import ml_dtypes

        low = np.dtype(ml_dtypes.bfloat16)
        return xp.matmul(a.astype(low), b.astype(low)).astype(xp.float32)
    linalg = xp._core._routines_linalg  # CuPy's only public way is an environment variable
    before = linalg.get_compute_type(xp.float32)
    linalg.set_compute_type(xp.float32, linalg.COMPUTE_TYPE_TF32)
    try:
        return xp.matmul(a, b)
    finally:
        linalg.set_compute_type(xp.float32, before)
