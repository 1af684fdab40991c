"""Chapter 6: rotary position embeddings (RoPE).

In layers.py a learned vector encodes the position of a token. Here queries and keys are rotated by
an angle that grows with their position, so that their inner product depends on the distance between
them (derivations/14_rotary.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.backend import Array, asarray
from tinyattn.tensor import Tensor


class Rotary:
    """Rotates the pairs of a query's or key's coordinates by angles that grow with its position.

    Forward: pair i at position t is rotated by the angle t·θ_i, θ_i = base^(-2i/D), i = 0..D/2-1
    Shapes:  x (..., T, D), D even -> as x
    Units:   angles in radians
    Source:  Su and others 2021 (RoFormer), equation 15
    It has no parameters, and ⟨R(q, t), R(k, s)⟩ depends on t - s only.
    """

    def __init__(self, width: int, *, base: float = 10_000.0) -> None:
        if width % 2:
            raise ValueError(f"Rotary: the width of a head must be even; got {width}")
        self.frequencies = base ** (-np.arange(0, width, 2) / width)  # θ, radians per position
        self._tables: dict[Any, tuple[Array, Array]] = {}  # device, dtype -> cos and sin, (T, D/2)

    def __call__(self, x: Tensor, start: int = 0, step: int = 1) -> Tensor:
        """x rotated; its vectors are at the positions start, start + step, start + 2·step, .."""
        cos, sin = self.angles(x.device, x.dtype, start, start + step * x.shape[-2], step)
        return ops.rotate(x, cos=cos, sin=sin)

    def angles(
        self, device: str, dtype: Any, start: int, stop: int, step: int = 1
    ) -> tuple[Array, Array]:
        """Cosine and sine of the angles at these positions, (T, D/2) each."""
        cos, sin = self._table(device, dtype, stop)
        return cos[start:stop:step], sin[start:stop:step]

    def _table(self, device: str, dtype: Any, length: int) -> tuple[Array, Array]:
        table = self._tables.get((device, dtype))
        if table is None or len(table[0]) < length:
            angles = np.arange(max(length, 128))[:, None] * self.frequencies
            table = (
                asarray(np.cos(angles), dtype, device=device),
                asarray(np.sin(angles), dtype, device=device),
            )
            self._tables[device, dtype] = table
        return table
