"""Engine room, CPU: attention that leaves out masked pairs instead of multiplying them by 0.

A weight of 0 hides a value by multiplication; but 0·∞ and 0·NaN are NaN. Uninitialized memory may
contain such elements, and a mask hides them. So if the tiles (attention.py) give an
element that is not finite, attention is computed again here. Every sum leaves out pairs of weight
0, and backward also queries whose gradient is 0. It computes one head at a time, with T × S
elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.dropout import keep
from tinyattn.kernels.cpu.pairs import Pairs
from tinyattn.rng import DropoutMask


class Selection:
    """Attention of many heads, for arrays that may contain ∞ or NaN where they are masked.

    Args:
        q, k, v: with equal leading axes; shapes as in `ops.attention`.
        pairs: which keys each query may attend to.
        drops: the dropout mask; None for no dropout. Weights it keeps are multiplied by `upscale`.
    """

    def __init__(
        self, q: Array, k: Array, v: Array, pairs: Pairs, drops: DropoutMask | None,
        scale: float, upscale: float,
    ) -> None:  # fmt: skip
        self.qkv, self.pairs, self.drops = (q, k, v), pairs, drops
        self.scale, self.upscale = scale, upscale

    def outputs(self, y: Array) -> Array:
        """y, (..., T, E), filled with the outputs."""
        with np.errstate(invalid="ignore"):  # 0·∞ is computed first, then replaced
            for head in np.ndindex(*self.pairs.lead):
                y[head], _ = self._head(head)
        return y

    def gradients(self, g: Array) -> tuple[Array, ...]:
        """The gradients of q, k and v for the gradient g of the outputs."""
        found = tuple(np.empty_like(a) for a in self.qkv)
        with np.errstate(invalid="ignore"):
            for head in np.ndindex(*self.pairs.lead):
                _, vjp = self._head(head)
                for into, gradient in zip(found, vjp(g[head]), strict=True):
                    into[head] = gradient
        return found

    def _head(self, head: tuple[int, ...]) -> Any:
        """The output of one head, (T, E), and its vjp."""
        scale = self.scale
        q, k, v = (a[head] for a in self.qkv)
        allowed = self.pairs.allowed(head)
        kept = np.ones_like(allowed)
        if self.drops is not None:  # the rows of its bits are keys
            shape = (*[1] * len(head), *allowed.shape[::-1])
            kept = keep(self.drops, shape, (*head, 0, 0)).reshape(shape[-2:]).T
        x = np.where(allowed, scale * np.matmul(q, k.T), -math.inf)
        largest = x.max(axis=1, keepdims=True)
        e = np.where(allowed, np.exp(x - np.where(largest == -math.inf, 0, largest)), 0)
        total = e.sum(axis=1, keepdims=True)
        p = np.where(allowed, e / np.where(total == 0, 1, total), 0)
        u = np.where(kept, p * self.upscale, 0)

        def vjp(g: Array) -> tuple[Array, Array, Array]:
            used = (g != 0).any(axis=1, keepdims=True)
            u_g, p_g = np.where(used, u, 0), np.where(used, p, 0)
            du = np.where(u_g == 0, 0, u_g * np.matmul(g, v.T))
            ds = np.where(p_g == 0, 0, du - p_g * du.sum(axis=1, keepdims=True)) * scale
            return _product(ds, k), _product(ds.T, q), _product(u_g.T, g)

        return _product(u, v), vjp


def _product(a: Array, b: Array) -> Array:
    """The matrix product a·b, with 0·∞ = 0·NaN = 0. Shapes: a (M, K), b (K, N) -> (M, N)."""
    finite = np.isfinite(b)
    y = np.matmul(a, np.where(finite, b, 0))
    for k in np.flatnonzero(~finite.all(axis=1)).tolist():
        y += np.where((a[:, k, None] != 0) & ~finite[k], a[:, k, None] * b[k], 0)
    return y
