"""Chapter 3, continued: attention that leaves out what is hidden.

A weight of 0 hides a value by multiplying with it; but 0·∞ and 0·NaN are NaN. Memory that nobody
has written to may hold such numbers, and a mask says that they do not matter. So where the fast way
(attention.py) meets a number that is not finite, it turns here: what is hidden is left out of every
sum, and so is a query whose answer is not used. It takes one head after the other, T × S numbers at
a time. Next: attention itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array, asnumpy
from tinyattn.noise import Site
from tinyattn.ops.tiling import Tiling


class Selection:
    """Attention of many heads, for numbers that may be ∞ or NaN where they are hidden.

    Args:
        q, k, v: with equal leading axes; shapes as in `ops.attention`.
        tiling: who may attend to whom.
        drops: what dropout drops; None for nothing. What it keeps is multiplied by `upscale`.
    """

    def __init__(
        self, xp: Any, q: Array, k: Array, v: Array, tiling: Tiling, drops: Site | None,
        scale: float, upscale: float,
    ) -> None:  # fmt: skip
        self.xp, self.qkv, self.tiling, self.drops = xp, (q, k, v), tiling, drops
        self.scale, self.upscale = scale, upscale

    def answers(self, y: Array) -> Array:
        """y, (..., T, E), filled with the answers."""
        with np.errstate(invalid="ignore"):  # 0·∞ is left out after it was computed
            for head in np.ndindex(*self.tiling.lead):
                y[head], _ = self._head(head)
        return y

    def gradients(self, g: Array) -> tuple[Array, ...]:
        """The gradients of q, k and v for the gradient g of the answers."""
        found = tuple(self.xp.empty_like(a) for a in self.qkv)
        with np.errstate(invalid="ignore"):
            for head in np.ndindex(*self.tiling.lead):
                _, vjp = self._head(head)
                for into, gradient in zip(found, vjp(g[head]), strict=True):
                    into[head] = gradient
        return found

    def _head(self, head: tuple[int, ...]) -> Any:
        """One head's answers, (T, E), and its vjp."""
        xp, scale = self.xp, self.scale
        q, k, v = (a[head] for a in self.qkv)
        allowed = self.tiling.allowed(head)
        kept = xp.ones_like(allowed)
        if self.drops is not None:  # its bits stand keys down
            shape = (*[1] * len(head), *allowed.shape[::-1])
            kept = self.drops.keep(xp, shape, (*head, 0, 0)).reshape(shape[-2:]).T
        x = xp.where(allowed, scale * xp.matmul(q, k.T), -math.inf)
        largest = x.max(axis=1, keepdims=True)
        e = xp.where(allowed, xp.exp(x - xp.where(largest == -math.inf, 0, largest)), 0)
        total = e.sum(axis=1, keepdims=True)
        p = e / xp.where(total == 0, 1, total)
        used = xp.where(kept, p * self.upscale, 0)

        def vjp(g: Array) -> tuple[Array, Array, Array]:
            live = (g != 0).any(axis=1, keepdims=True)
            counts, seen = allowed & kept & live, allowed & live
            du = xp.where(counts, used * xp.matmul(g, v.T), 0)
            ds = xp.where(seen, du - p * du.sum(axis=1, keepdims=True), 0) * scale
            dv = _product(xp, used.T, g, counts.T)
            return _product(xp, ds, k, seen), _product(xp, ds.T, q, seen.T), dv

        return _product(xp, used, v, allowed & kept), vjp


def _product(xp: Any, a: Array, b: Array, counts: Array) -> Array:
    """Σ_k a_ik b_kj over the k that count for i.

    Shapes: a and counts (M, K), b (K, N) -> (M, N)
    """
    finite = xp.isfinite(b)
    y = xp.matmul(xp.where(counts, a, 0), xp.where(finite, b, 0))
    for k in np.flatnonzero(~asnumpy(finite).all(axis=1)).tolist():
        y += xp.where(counts[:, k, None] & ~finite[k], a[:, k, None] * b[k], 0)
    return y
