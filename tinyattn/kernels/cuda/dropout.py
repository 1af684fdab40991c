"""Engine room, CUDA: dropout, one thread for each element.

Backward computes the dropout mask again. This takes a few integer operations for each element;
keeping the mask would take memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import drops, program
from tinyattn.kernels.register import kernel
from tinyattn.rng import DropoutRNG

AXES = 3  # most axes before the last one
THREADS = 256

SOURCE = r"""
extern "C" __global__ void dropout(const T* x, T* y, T factor, unsigned count, unsigned width,
                                   unsigned axes, unsigned second, unsigned third, Drops d) {
  // 32 bits: dividing 64-bit integers takes a GPU about a hundred instructions.
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned row = i / width, row_key = d.row_key;
  if (axes > 2) row_key = hashed(row_key, row / third / second + d.first_row, d.key);
  if (axes > 1) row_key = hashed(row_key, row / third % second + (axes == 2) * d.first_row, d.key);
  row_key = hashed(row_key, row % third + (axes == 1) * d.first_row, d.key);
  y[i] = kept(row_key, i % width, d) ? x[i] * factor : 0;
}
"""


def _why_not(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> str:
    """Needs two to four axes, fewer than 2^31 elements, and a probability above 0."""
    if dropout_rng is None or rate == 0:
        return "drops nothing"
    if not 2 <= x.ndim <= AXES + 1:
        return f"{x.ndim} axes"
    return "" if 0 < x.size < 1 << 31 else f"{x.size} elements"


@kernel("dropout", "cuda", _why_not)
def dropout(xp: Any, x: Array, *, rate: float, dropout_rng: DropoutRNG | None) -> Any:
    """`ops.dropout` in one launch, and backward in one."""
    assert dropout_rng is not None
    leading: tuple[int, ...] = x.shape[:-1]
    second, third = (1, 1, *leading)[-2:]
    width, axes = x.shape[-1], x.ndim - 1
    where = drops(dropout_rng.mask(rate))
    factor = x.dtype.type(1 / (1 - rate))

    def drop(a: Array) -> Array:
        a = xp.ascontiguousarray(a)
        out = xp.empty_like(a)
        sizes = [np.uint32(n) for n in (a.size, width, axes, second, third)]
        program(xp, SOURCE, "dropout", a.dtype)(
            (-(-a.size // THREADS),), (THREADS,), (a, out, factor, *sizes, where)
        )
        return out

    return drop(x), (drop,)
