"""Engine room, CUDA: the gradient of a table, one block for each of its rows and some columns.

Each block looks through all ids for its own, so that what belongs to a row is added in one order,
and the same bits come out every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import program
from tinyattn.kernels.table import kernel
from tinyattn.op import Index

COLUMNS = 64  # of a block
MOST_LOOKS = 1 << 25
"""Rows times ids, up to which looking through all ids is fast; above, the formula does it, with
atomic additions, in any order."""

SOURCE = (
    f"#define COLUMNS {COLUMNS}\n"
    + r"""
extern "C" __global__ void embedding_weight(const T* g, const long long* ids, T* dweight, int count,
                                            int V, int C) {
  __shared__ int some[COLUMNS];
  int c = blockIdx.y * COLUMNS + threadIdx.x;
  T sum = 0;
  for (int start = 0; start < count; start += COLUMNS) {
    if (start + threadIdx.x < count) {
      long long id = ids[start + threadIdx.x];
      some[threadIdx.x] = id < 0 ? id + V : id;
    }
    __syncthreads();
    T part = 0;  // ones that are counted one by one stop at 2^24
    for (int i = 0; i < COLUMNS && start + i < count; i++)
      if (some[i] == blockIdx.x && c < C) part += g[(long long)(start + i) * C + c];
    sum += part;
    __syncthreads();
  }
  if (c < C) dweight[(long long)blockIdx.x * C + c] = sum;
}
"""
)


def _why_not(xp: Any, weight: Array, ids: Index) -> str:
    """An id and a number of each row at least, and up to 2^25 rows times ids."""
    if not (ids.size and weight.size):
        return "nothing to look up"
    return "too many ids" if len(weight) * ids.size > MOST_LOOKS else ""


@kernel("embedding", "cuda", _why_not)
def embedding(xp: Any, weight: Array, ids: Index) -> Any:
    """`ops.embedding` with its gradient in one launch."""
    V, C = weight.shape

    def dweight(g: Array) -> Array:
        out = xp.empty((V, C), dtype=weight.dtype)
        own = xp.ascontiguousarray(ids).astype(xp.int64, copy=False)
        program(xp, SOURCE, "embedding_weight", g.dtype)(
            (V, -(-C // COLUMNS)), (COLUMNS,),
            (xp.ascontiguousarray(g), own, out, np.int32(ids.size), np.int32(V), np.int32(C)),
        )  # fmt: skip
        return out

    return weight[ids], (dweight, None)
