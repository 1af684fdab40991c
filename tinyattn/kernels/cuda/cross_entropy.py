"""Engine room, CUDA: cross-entropy, one warp for each prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import THREADS, blocks_for, program
from tinyattn.kernels.register import kernel
from tinyattn.op import Index

SOURCE = r"""
// For each row of z: the largest logit, the sum of exp(z - largest), and the loss of the target.
extern "C" __global__ void cross_entropy(const T* z, const long long* targets, T* largest, T* total,
                                         T* loss, T share, int ignored, long long ignore,
                                         int rows, int V) {
  long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  z += row * V;
  T most = -INFINITE, sum = 0;
  for (int v = lane; v < V; v += 32) most = max(most, z[v]);
  most = warp_max(most);
  for (int v = lane; v < V; v += 32) sum += exp(z[v] - most);
  sum = warp_sum(sum);
  if (lane) return;
  long long target = targets[row];
  largest[row] = most;
  total[row] = sum;
  if (ignored && target == ignore) loss[row] = 0;
  else if (target < 0 || target >= V) loss[row] = NO_NUMBER;  // the training step checks it
  else loss[row] = share * (log(sum) - (z[target] - most));
}

extern "C" __global__ void cross_entropy_z(const T* z, const long long* targets, const T* largest,
                                           const T* total, const T* g, T* dz, T share, int ignored,
                                           long long ignore, int rows, int V) {
  long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  z += row * V;
  dz += row * V;
  long long target = targets[row];
  bool counts = !ignored || target != ignore;
  T most = largest[row], per = 1 / total[row], weight = *g * share;
  for (int v = lane; v < V; v += 32)
    dz[v] = counts ? (exp(z[v] - most) * per - (v == target)) * weight : 0;
}
"""


@kernel("cross_entropy", "cuda")
def cross_entropy(
    xp: Any,
    logits: Array,
    targets: Index,
    *,
    ignore: int | None = None,
    divisor: float | None = None,
) -> Any:
    """`ops.cross_entropy` in two launches, and backward in one, if `divisor` is given."""
    z, V = xp.ascontiguousarray(logits), logits.shape[-1]
    picked = xp.ascontiguousarray(targets).astype(xp.int64, copy=False)
    rows = picked.size
    largest, total, losses = (xp.empty(rows, dtype=z.dtype) for _ in range(3))
    sizes = np.int32(ignore is not None), np.int64(ignore or 0), np.int32(rows), np.int32(V)

    def launch(name: str, *arguments: Any) -> None:
        if rows:
            run = program(xp, SOURCE, name, z.dtype)
            run(blocks_for(rows), (THREADS,), (z, picked, *arguments, *sizes))

    share = z.dtype.type(1 / divisor if divisor is not None else 1)
    launch("cross_entropy", largest, total, losses, share)
    y, n = losses.sum(), 1
    if divisor is None:
        n = xp.maximum(rows if ignore is None else (picked != ignore).sum(), 1).astype(z.dtype)
        y = y / n

    def dz(g: Array) -> Array:
        out = xp.empty_like(z)
        g = g if divisor is not None else g / n
        launch("cross_entropy_z", largest, total, xp.ascontiguousarray(g), out, share)
        return out

    return y, (dz, None)
