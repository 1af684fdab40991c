"""Engine room, CUDA: dropout, one thread for each number.

What is kept is found out again on the way back: that costs a few operations on integers, and
keeping it would cost memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import drops, program
from tinyattn.kernels.table import kernel
from tinyattn.noise import Noise

AXES = 3  # most axes before the last one
THREADS = 256

SOURCE = r"""
extern "C" __global__ void dropout(const T* x, T* y, T factor, unsigned count, unsigned width,
                                   unsigned axes, unsigned second, unsigned third, Drops d) {
  // 32 bits: dividing numbers of 64 costs a GPU about a hundred instructions.
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned row = i / width, row_key = d.row_key;
  if (axes > 2) row_key = hashed(row_key, row / third / second + d.first_row, d.key);
  if (axes > 1) row_key = hashed(row_key, row / third % second + (axes == 2) * d.first_row, d.key);
  row_key = hashed(row_key, row % third + (axes == 1) * d.first_row, d.key);
  y[i] = kept(row_key, i % width, d) ? x[i] * factor : 0;
}
"""


def _why_not(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> str:
    """Two to four axes, fewer than 2^31 numbers, and something to drop."""
    if noise is None or rate == 0:
        return "drops nothing"
    if not 2 <= x.ndim <= AXES + 1:
        return f"{x.ndim} axes"
    return "" if 0 < x.size < 1 << 31 else f"{x.size} numbers"


@kernel("dropout", "cuda", _why_not)
def dropout(xp: Any, x: Array, *, rate: float, noise: Noise | None) -> Any:
    """`ops.dropout` in one launch, and backward in one."""
    assert noise is not None
    leading: tuple[int, ...] = x.shape[:-1]
    second, third = (1, 1, *leading)[-2:]
    width, axes = x.shape[-1], x.ndim - 1
    where = drops(noise.site(rate))
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
