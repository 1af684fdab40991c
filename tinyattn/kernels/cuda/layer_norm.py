"""Engine room, CUDA: layer normalization, one warp for each row."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import THREADS, blocks_for, program
from tinyattn.kernels.register import kernel

COLUMNS, ROWS = 32, 8  # of a thread block that sums up columns
PARTS = 64  # partial sums of each column, which are then added

SOURCE = (
    f"#define COLUMNS {COLUMNS}\n#define ROWS {ROWS}\n"
    + r"""
// The factor of a row before it is squared: a power of two, so that no square overflows or
// vanishes. For nearly all rows it is 1.
__device__ T unit(T most, T eps) {
  if (most < T(1e15) && (eps > T(1e-30) || most > T(1e-12) || most == 0)) return 1;
  if (most - most != 0) return 1;  // not finite
  int power = ilogb(most);
  if (eps > 0) power = max(power, ilogb(eps) / 2 - 1);
  return ldexp(T(1), -power);
}

extern "C" __global__ void layer_norm(const T* x, const T* gain, const T* bias, T* y, T* mean,
                                      T* scale, T eps, int rows, int C) {
  long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += row * C;
  y += row * C;
  T most = 0, sum = 0, squares = 0;
  for (int c = lane; c < C; c += 32) most = max(most, max(x[c], -x[c]));
  T u = unit(warp_max(most), eps);
  for (int c = lane; c < C; c += 32) sum += x[c] * u;
  T m = warp_sum(sum) / C;
  for (int c = lane; c < C; c += 32) squares += (x[c] * u - m) * (x[c] * u - m);
  T r = 1 / sqrt(warp_sum(squares) / C + eps * u * u);
  for (int c = lane; c < C; c += 32) y[c] = (x[c] * u - m) * r * gain[c] + bias[c];
  if (lane == 0) {
    mean[row] = m / u;
    scale[row] = r * u;
  }
}

extern "C" __global__ void layer_norm_x(const T* x, const T* gain, const T* mean, const T* scale,
                                        const T* g, T* dx, int rows, int C) {
  long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += row * C;
  g += row * C;
  dx += row * C;
  T m = mean[row], r = scale[row], sum = 0, along = 0;
  for (int c = lane; c < C; c += 32) {
    T d = g[c] * gain[c];
    sum += d;
    along += d * (x[c] - m) * r;
  }
  sum = warp_sum(sum) / C;
  along = warp_sum(along) / C;
  for (int c = lane; c < C; c += 32)
    dx[c] = r * (g[c] * gain[c] - sum - (x[c] - m) * r * along);
}

// The sum of each column of g·h, and of g. blockIdx.y selects the rows. The thread block that ends
// last adds the partial sums of all thread blocks, always in the same order.
extern "C" __global__ void layer_norm_columns(const T* x, const T* mean, const T* scale, const T* g,
                                              T* parts, unsigned* done, T* sums, int rows, int C) {
  __shared__ T found[2][ROWS][COLUMNS];
  __shared__ bool last;
  int c = blockIdx.x * COLUMNS + threadIdx.x, which = threadIdx.y;
  T of_gain = 0, of_bias = 0;
  for (long long row = blockIdx.y * ROWS + which; c < C && row < rows; row += ROWS * gridDim.y) {
    T of_row = g[row * C + c];
    of_gain += of_row * (x[row * C + c] - mean[row]) * scale[row];
    of_bias += of_row;
  }
  found[0][which][threadIdx.x] = of_gain;
  found[1][which][threadIdx.x] = of_bias;
  __syncthreads();
  if (which < 2 && c < C) {
    T sum = 0;
    for (int i = 0; i < ROWS; i++) sum += found[which][i][threadIdx.x];
    parts[((long long)blockIdx.y * 2 + which) * C + c] = sum;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && which == 0) last = atomicAdd(&done[blockIdx.x], 1u) == gridDim.y - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (which < 2 && c < C) {
    T sum = 0;
    for (int i = 0; i < gridDim.y; i++) sum += parts[((long long)i * 2 + which) * C + c];
    sums[which * C + c] = sum;
  }
  if (threadIdx.x == 0 && which == 0) done[blockIdx.x] = 0;  // for the next launch
}
"""
)


@cache
def _zeros(xp: Any, count: int, stream: int) -> Array:
    """The number of thread blocks that have ended: 0 before and after each launch of a stream."""
    return xp.zeros(count, dtype=xp.uint32)


@kernel("layer_norm", "cuda")
def layer_norm(xp: Any, x: Array, gain: Array, bias: Array, *, eps: float = 1e-5) -> Any:
    """`ops.layer_norm` in one launch, and backward in two."""
    C, rows = x.shape[-1], x.size // max(1, x.shape[-1])
    x, gain, bias = (xp.ascontiguousarray(a) for a in (x, gain, bias))
    y = xp.empty_like(x)
    mean, scale = (xp.empty(rows, dtype=x.dtype) for _ in range(2))
    size = np.int32(rows), np.int32(C)

    def launch(name: str, *arguments: Any) -> None:
        if x.size:
            grid = blocks_for(rows)
            program(xp, SOURCE, name, x.dtype)(grid, (THREADS,), (*arguments, *size))

    launch("layer_norm", x, gain, bias, y, mean, scale, x.dtype.type(eps))

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        g = xp.ascontiguousarray(g)
        dx = xp.empty_like(x)
        launch("layer_norm_x", x, gain, mean, scale, g, dx)
        blocks = -(-C // COLUMNS), min(PARTS, -(-rows // ROWS)) or 1
        parts = xp.empty((blocks[1], 2, C), dtype=x.dtype)
        done = _zeros(xp, blocks[0], xp.cuda.get_current_stream().ptr)
        sums = xp.empty((2, C), dtype=x.dtype)
        program(xp, SOURCE, "layer_norm_columns", x.dtype)(
            blocks, (COLUMNS, ROWS), (x, mean, scale, g, parts, done, sums, *size)
        )
        dgain, dbias = sums
        return dx, dgain, dbias

    return y, vjp
