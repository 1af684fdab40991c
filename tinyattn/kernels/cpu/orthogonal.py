"""Engine room, CPU: muon's polynomials, with fewer products of matrices.

The formula is `orthogonal` in training/muon.py. Here a long matrix is left alone until all factors
are known, and no array is made for the size. It serves GPUs as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array

POLYNOMIALS = (
    (8.38367, -24.76591, 18.35708),
    (4.04348, -3.01147, 0.56953),
    (3.50555, -2.62634, 0.52559),
    (2.49025, -1.83426, 0.43677),
)
"""Those of the formula."""
WIDE = 2
"""From this ratio of the sides on, a matrix is left alone until all its factors are known: fewer
products from 1.5 on, but less precise, 2e-4 of the result in float32 in place of 1e-5."""


def orthogonal(xp: Any, g: Array) -> Array:
    """`training.muon.orthogonal`. Shapes: (..., M, N) -> (..., M, N), each matrix by itself."""
    # Numbers up to 1, so that neither their squares nor those of squares leave float32's range.
    largest = abs(g).max(axis=(-2, -1), keepdims=True)
    x = g / xp.maximum(largest, np.finfo(g.dtype).tiny)
    M, N = x.shape[-2:]
    if max(M, N) >= WIDE * min(M, N):
        product = _product(xp, _turned(x) @ x if M > N else x @ _turned(x))
        return x @ _turned(product) if M > N else product @ x  # on the side where it grew
    x = _turned(x) if M > N else x
    for step in range(len(POLYNOMIALS)):
        x = _factor(xp, x @ _turned(x), step) @ x
    return _turned(x) if M > N else x


def _turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _product(xp: Any, gram: Array) -> Array:
    """All factors in one, for a long matrix with this A: only small matrices are multiplied.

    The next X is PX, P being a factor, so the next A is PXXᵀPᵀ = PAP.
    """
    product = factor = _factor(xp, gram, 0)
    for step in range(1, len(POLYNOMIALS)):
        gram = factor @ gram @ factor
        factor = _factor(xp, gram, step)
        product = factor @ product
    return product


def _factor(xp: Any, gram: Array, step: int) -> Array:
    """aI + bA + cA² of this step; of the first, the one for X/size, where A is still that of X."""
    (a, b, c), square = POLYNOMIALS[step], gram @ _turned(gram)  # A = Aᵀ: half is enough for BLAS
    if step == 0:  # 1 is the largest number in X, and so the least size, unless X is zero
        size = (square * square).sum(axis=(-2, -1))
        size = xp.maximum(size**0.125, 1)
        a, b, c = a / size, b / size**3, c / size**5
        if gram.ndim > 2:  # one of each for every matrix
            a, b, c = a[..., None], b[..., None, None], c[..., None, None]
    square *= c
    square += b * gram
    n = gram.shape[-1]
    square.reshape(*gram.shape[:-2], n * n)[..., :: n + 1] += a
    return square
