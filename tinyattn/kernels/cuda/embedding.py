"""Engine room, CUDA: the gradient of an embedding table, a thread block for a row and some columns.

Each thread block scans all ids for its row. So the gradients of a row are added in a fixed order,
and the result has the same bits every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import program
from tinyattn.kernels.register import kernel
from tinyattn.op import Index

COLUMNS = 64  # of a thread block
MOST_LOOKS = 1 << 25
"""Rows times ids, up to which scanning all ids is fast. Above it the formula computes, with atomic
additions in any order."""

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
    T part = 0;  // a sum of ones, one by one, stops at 2^24
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
    """Needs an id and a column at least, and up to 2^25 rows times ids."""
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
