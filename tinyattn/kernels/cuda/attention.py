"""Engine room, CUDA: attention, in which one warp computes the weights of one query.

The matrix products are CuPy's. Between them one kernel launch replaces scores by weights in place;
backward, one launch replaces gradients of weights by gradients of scores. So the weights of all
pairs are kept: a GPU has the memory for sequences of some thousand tokens. The results are copied
in any case, to put the heads of a position beside each other. An element that is not finite is then
summed again, without masked pairs (kernels/cpu/selected.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cuda.program import THREADS, blocks_for, drops, program
from tinyattn.kernels.register import kernel
from tinyattn.op import Mask
from tinyattn.rng import DropoutRNG

PAIRS = np.dtype(
    [(name, "i8") for name in ("rows", "sequence", "head", "query", "key")]
    + [("allowed", "u8")]
    + [(name, "i4") for name in ("heads", "queries", "keys", "lag", "causal", "unused")]
)

MATRICES = np.dtype([(name, "i8") for name in ("sequence", "head", "row", "column")])

SOURCE = r"""
// One row of weights for each query of each head of each sequence; the keys it may attend to.
struct Pairs {
  long long rows, sequence, head, query, key;  // the last four: strides of `allowed`
  const bool* allowed;
  int heads, queries, keys, lag, causal, unused;  // query t may attend up to t + lag
};

struct Row {
  int t, stop, lane;  // keys from `stop` on are later than the query
  const bool* allowed;
  unsigned head_key;
};

__device__ Row row_of(int row, Pairs p, Drops d) {
  int t = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  const bool* allowed = p.allowed;
  if (allowed) allowed += b * p.sequence + h * p.head + t * p.query;
  unsigned head_key = hashed(hashed(d.row_key, b + d.first_row, d.key), h, d.key);
  int stop = p.causal ? min(p.keys, max(0, t + p.lag + 1)) : p.keys;
  return {t, stop, int(threadIdx.x % 32), allowed, head_key};
}
__device__ bool may(int s, Row r, Pairs p) {
  return s < r.stop && (!r.allowed || r.allowed[s * p.key]);
}
// A weight after dropout, by the bits of ops/attention.py, whose rows are keys.
__device__ T left(T weight, int s, Row r, Drops d, T upscale) {
  if (!d.any) return weight;
  return kept(hashed(r.head_key, s, d.key), r.t, d) ? weight * upscale : 0;
}

// Replaces scores x by weights P, in place; `used` gets U, the weights after dropout.
extern "C" __global__ void weigh(T* x, T* used, T scale, T upscale, Pairs p, Drops d) {
  long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (row >= p.rows) return;
  Row r = row_of(row, p, d);
  x += row * p.keys;
  used += row * p.keys;
  T largest = -INFINITE, total = 0;
  for (int s = r.lane; s < r.stop; s += 32)
    if (may(s, r, p)) largest = max(largest, x[s] * scale);
  largest = warp_max(largest);
  if (largest == -INFINITE) largest = 0;  // no key, or only scores of -∞: weights 0
  for (int s = r.lane; s < p.keys; s += 32) {
    x[s] = may(s, r, p) ? exp(x[s] * scale - largest) : 0;
    total += x[s];
  }
  total = warp_sum(total);
  T per = total == 0 ? 0 : 1 / total;  // a query without keys gets zeros
  for (int s = r.lane; s < p.keys; s += 32) {
    x[s] = may(s, r, p) ? x[s] * per : 0;
    if (d.any) used[s] = left(x[s], s, r, d, upscale);
  }
}

// The strides of the matrices of the heads of some sequences, in elements.
struct Matrices {
  long long sequence, head, row, column;
};
__device__ const T* head_of(const T* a, Matrices m, unsigned b, unsigned h) {
  return a + b * m.sequence + h * m.head;
}

// Replaces dU = g v^T by scale·dS = scale·(U·dU - P·Σ U·dU), in place; `used` gets U once more. A
// query whose g is 0 contributes nothing.
extern "C" __global__ void weigh_back(const T* weights, T* du, T* used, const T* g, Matrices gm,
                                      int E, T scale, T upscale, Pairs p, Drops d) {
  long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (row >= p.rows) return;
  Row r = row_of(row, p, d);
  weights += row * p.keys;
  du += row * p.keys;
  used += row * p.keys;
  g = head_of(g, gm, row / p.queries / p.heads, row / p.queries % p.heads) + r.t * gm.row;
  T any = 0, inner = 0;
  for (int e = r.lane; e < E; e += 32) any = g[e * gm.column] != 0 ? 1 : any;
  bool live = warp_max(any) > 0;
  for (int s = r.lane; s < p.keys; s += 32) {
    T u = left(weights[s], s, r, d, upscale);
    if (d.any) used[s] = u;
    du[s] = live && u != 0 ? u * du[s] : 0;
    inner += du[s];
  }
  inner = warp_sum(inner);
  for (int s = r.lane; s < p.keys; s += 32)
    du[s] = live && weights[s] != 0 ? (du[s] - weights[s] * inner) * scale : 0;
}

// Whether x is finite; if not, the sum is computed again without masked pairs.
__device__ bool is_number(T x) { return x - x == 0; }

// y = U v, with the heads of a position beside each other.
extern "C" __global__ void outputs(const T* product, const T* used, const T* v, Matrices vm, T* y,
                                   int E, Pairs p) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.rows * E) return;
  unsigned row = i / E, e = i % E, t = row % p.queries, head = row / p.queries;
  unsigned h = head % p.heads, b = head / p.heads;
  T x = product[i];
  if (!is_number(x)) {
    used += (long long)row * p.keys;
    v = head_of(v, vm, b, h) + e * vm.column;
    x = 0;
    for (int s = 0; s < p.keys; s++)
      if (used[s] != 0) x += used[s] * v[s * vm.row];
  }
  y[((b * p.queries + t) * p.heads + h) * E + e] = x;
}

// The same for dq = dS k (blockIdx.y 0), dk = dS^T q (1) and dv = U^T g (2); the matrix products of
// the last two are transposed.
extern "C" __global__ void gradients(const T* dq_product, const T* dk_product, const T* dv_product,
                                     const T* ds, const T* used, const T* q, Matrices qm,
                                     const T* k, Matrices km, const T* g, Matrices gm, T* dq,
                                     T* dk, T* dv, int D, int E, Pairs p) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, which = blockIdx.y;
  unsigned width = which == 2 ? E : D, length = which ? p.keys : p.queries;
  if (i >= p.rows / p.queries * length * width) return;
  unsigned head = i / width / length, h = head % p.heads, b = head / p.heads;
  unsigned at = which ? i % length : i / width % length, c = which ? i / length % width : i % width;
  T x = (which == 0 ? dq_product : which == 1 ? dk_product : dv_product)[i];
  if (!is_number(x)) {
    const T* weights = (which == 2 ? used : ds) + (long long)head * p.queries * p.keys;
    const T* other = which == 0 ? head_of(k, km, b, h) + c * km.column
                     : which == 1 ? head_of(q, qm, b, h) + c * qm.column
                                  : head_of(g, gm, b, h) + c * gm.column;
    x = 0;
    for (int s = 0; s < (which ? p.queries : p.keys); s++) {
      T weight = which ? weights[(long long)s * p.keys + at] : weights[(long long)at * p.keys + s];
      T term = other[s * (which == 0 ? km.row : which == 1 ? qm.row : gm.row)];
      if (weight != 0 && (which != 2 || term != 0)) x += weight * term;
    }
  }
  (which == 0 ? dq : which == 1 ? dk : dv)[((b * length + at) * p.heads + h) * width + c] = x;
}
"""


def _sizes(q: Array, k: Array, v: Array) -> list[int]:
    """How many elements queries, keys, outputs and values have."""
    (*lead, T, D), (S, E) = q.shape, v.shape[-2:]
    return [math.prod(lead) * n * m for n, m in ((T, D), (S, D), (T, E), (S, E))]


def _why_not(xp: Any, q: Array, k: Array, v: Array, allowed: Mask = None, **options: Any) -> str:
    """Needs 4 axes, equal leading axes of q, k and v, and fewer than 2^31 elements each."""
    if q.ndim != 4:
        return f"{q.ndim} axes"
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return "leading axes differ"
    sizes = _sizes(q, k, v)
    return "nothing in it" if min(sizes) == 0 else "too large" if max(sizes) >> 31 else ""


@kernel("attention", "cuda", _why_not)
def attention(
    xp: Any,
    q: Array,
    k: Array,
    v: Array,
    allowed: Mask = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_rng: DropoutRNG | None = None,
) -> Any:
    """`ops.attention` with 4 axes: between the matrix products one launch, also backward."""
    (*lead, T, D), (S, E) = q.shape, v.shape[-2:]
    rows, sizes = math.prod(lead) * T, _sizes(q, k, v)
    scale = 1 / math.sqrt(D) if scale is None else scale
    mask = None if allowed is None else xp.broadcast_to(allowed, (*lead, T, S))
    pairs = np.zeros((), PAIRS)
    pairs[...] = (
        rows, *(mask.strides if mask is not None else (0,) * 4),
        mask.data.ptr if mask is not None else 0, lead[1], T, S, S - T, causal, 0,
    )  # fmt: skip
    dropout_mask = dropout_rng.mask(dropout) if dropout_rng is not None and dropout else None
    about_weights = q.dtype.type(scale), q.dtype.type(1 / (1 - dropout)), pairs, drops(dropout_mask)
    d_and_e = np.int32(D), np.int32(E)

    def launch(name: str, grid: tuple[int, ...], *arguments: Any) -> None:
        program(xp, SOURCE, name, q.dtype)(grid, (THREADS,), arguments)

    def beside(length: int, width: int) -> Array:
        """An empty array for the heads' matrices, the heads of a position beside each other."""
        return xp.empty((lead[0], length, lead[1], width), dtype=q.dtype).swapaxes(1, 2)

    weights = xp.matmul(q, k.swapaxes(-1, -2))
    used = xp.empty_like(weights) if dropout_mask else weights
    launch("weigh", blocks_for(rows), weights, used, *about_weights)
    y = beside(T, E)
    launch("outputs", (-(-y.size // THREADS),), xp.matmul(used, v), used, v, _strides(v), y,
           d_and_e[1], pairs)  # fmt: skip
    del used

    def vjp(g: Array) -> tuple[Array, Array, Array, None]:
        ds = xp.matmul(g, v.swapaxes(-1, -2))
        used = xp.empty_like(weights) if dropout_mask else weights
        launch("weigh_back", blocks_for(rows), weights, ds, used, g, _strides(g), d_and_e[1],
               *about_weights)  # fmt: skip
        # Of the two factors of each product the small one is transposed, since this copies it.
        products = (xp.matmul(ds, k), xp.matmul(q.swapaxes(-1, -2), ds),
                    xp.matmul(g.swapaxes(-1, -2), used))  # fmt: skip
        found = beside(T, D), beside(S, D), beside(S, E)
        launch("gradients", (-(-max(sizes) // THREADS), 3), *products, ds, used, q, _strides(q), k,
               _strides(k), g, _strides(g), *found, *d_and_e, pairs)  # fmt: skip
        return *found, None

    return y, vjp


def _strides(a: Array) -> Any:
    """The strides of the heads' matrices in elements; a program takes them by value."""
    found = np.zeros((), MATRICES)
    found[...] = tuple(stride // a.itemsize for stride in a.strides)
    return found
