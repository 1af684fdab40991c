"""Engine room, CPU: Muon's polynomials, with fewer matrix products.

The formula is `orthogonal` in training/muon.py. Here a long matrix is multiplied only once, by the
product of all factors, and its size is computed from XXᵀ. GPUs use this file as well.
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
"""The coefficients (a, b, c) of each step, as in the formula."""
WIDE = 2
"""From this ratio of the sides on, a matrix is multiplied once, by the product of all its factors.
This saves matrix products from a ratio of 1.5 on, but is less accurate: in float32 it errs by 2e-4
of the result instead of 1e-5."""


def orthogonal(xp: Any, g: Array) -> Array:
    """`training.muon.orthogonal`. Shapes: (..., M, N) -> (..., M, N), each matrix by itself."""
    # Elements up to 1, so that neither their squares nor those of squares leave float32's range.
    largest = abs(g).max(axis=(-2, -1), keepdims=True)
    x = g / xp.maximum(largest, np.finfo(g.dtype).tiny)
    M, N = x.shape[-2:]
    if max(M, N) >= WIDE * min(M, N):
        product = _product(xp, _transposed(x) @ x if M > N else x @ _transposed(x))
        return x @ _transposed(product) if M > N else product @ x  # on the short side
    x = _transposed(x) if M > N else x
    for step in range(len(POLYNOMIALS)):
        x = _factor(xp, x @ _transposed(x), step) @ x
    return _transposed(x) if M > N else x


def _transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _product(xp: Any, gram: Array) -> Array:
    """The product of all factors of a long matrix with A = `gram`; multiplies only small matrices.

    The next X is PX, P being a factor, so the next A is PXXᵀPᵀ = PAP.
    """
    product = factor = _factor(xp, gram, 0)
    for step in range(1, len(POLYNOMIALS)):
        gram = factor @ gram @ factor
        factor = _factor(xp, gram, step)
        product = factor @ product
    return product


def _factor(xp: Any, gram: Array, step: int) -> Array:
    """The factor aI + bA + cA² of a step. In step 0, A belongs to X and the factor to X/size."""
    (a, b, c), square = (
        POLYNOMIALS[step],
        gram @ _transposed(gram),
    )  # A = Aᵀ: the BLAS computes only half
    if step == 0:  # X's largest element is 1, so its size is at least 1, unless X is zero
        size = (square * square).sum(axis=(-2, -1))
        size = xp.maximum(size**0.125, 1)
        a, b, c = a / size, b / size**3, c / size**5
        if gram.ndim > 2:  # one a, b and c for each matrix
            a, b, c = a[..., None], b[..., None, None], c[..., None, None]
    square *= c
    square += b * gram
    n = gram.shape[-1]
    square.reshape(*gram.shape[:-2], n * n)[..., :: n + 1] += a
    return square
