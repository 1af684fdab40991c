"""Chapter 3, continued: attention, one warp for the weights of each query.

The products are matrix products as ever. Between them scores become weights where they are, and on
the way back gradients of weights become gradients of scores, each in one launch. So the weights of
all pairs are kept: a GPU has the memory for texts of some thousand symbols. Next: optimisers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.cuda.program import THREADS, blocks_for, drops, program
from tinyattn.noise import Noise, check_rate
from tinyattn.op import Mask
from tinyattn.ops.attention import attention as formula
from tinyattn.ops.attention import check_attention
from tinyattn.twins import twin_of

PAIRS = np.dtype(
    [(name, "i8") for name in ("rows", "text", "head", "query", "key")]
    + [("allowed", "u8")]
    + [(name, "i4") for name in ("heads", "queries", "keys", "lag", "causal", "unused")]
)

SOURCE = r"""
// Rows of weights, one for each query of each head of each text; which keys each may look at.
struct Pairs {
  long long rows, text, head, query, key;  // the last four: how far apart in `allowed`
  const bool* allowed;
  int heads, queries, keys, lag, causal, unused;  // query t may see the keys up to t + lag
};

struct Row {
  int t, stop, lane;  // keys from `stop` on are later than the query
  const bool* allowed;
  unsigned head_key;
};

__device__ Row row_of(int row, Pairs p, Drops d) {
  int t = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  const bool* allowed = p.allowed;
  if (allowed) allowed += b * p.text + h * p.head + t * p.query;
  unsigned head_key = hashed(hashed(d.row_key, b + d.first_row, d.key), h, d.key);
  int stop = p.causal ? min(p.keys, max(0, t + p.lag + 1)) : p.keys;
  return {t, stop, int(threadIdx.x % 32), allowed, head_key};
}
__device__ bool may(int s, Row r, Pairs p) {
  return s < r.stop && (!r.allowed || r.allowed[s * p.key]);
}
// What dropout leaves of a weight, by the bits of ops/attention.py, whose rows are keys.
__device__ T left(T weight, int s, Row r, Drops d, T upscale) {
  if (!d.any) return weight;
  return kept(hashed(r.head_key, s, d.key), r.t, d) ? weight * upscale : 0;
}

// Scores x become weights P, in place; `used` gets what dropout leaves of them, U.
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
  for (int s = r.lane; s < p.keys; s += 32) {
    x[s] = may(s, r, p) ? exp(x[s] * scale - largest) : 0;
    total += x[s];
  }
  total = warp_sum(total);
  T per = total == 0 ? 0 : 1 / total;  // a query that sees nothing gets zeros
  for (int s = r.lane; s < p.keys; s += 32) {
    x[s] *= per;
    if (d.any) used[s] = left(x[s], s, r, d, upscale);
  }
}

// dU = g v^T becomes scale·dS = scale·(U·dU - P·Σ U·dU), in place; `used` gets U once more.
extern "C" __global__ void weigh_back(const T* weights, T* du, T* used, T scale, T upscale, Pairs p,
                                      Drops d) {
  long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (row >= p.rows) return;
  Row r = row_of(row, p, d);
  weights += row * p.keys;
  du += row * p.keys;
  used += row * p.keys;
  T inner = 0;
  for (int s = r.lane; s < p.keys; s += 32) {
    T u = left(weights[s], s, r, d, upscale);
    if (d.any) used[s] = u;
    du[s] = may(s, r, p) ? u * du[s] : 0;
    inner += du[s];
  }
  inner = warp_sum(inner);
  for (int s = r.lane; s < p.keys; s += 32) du[s] = (du[s] - weights[s] * inner) * scale;
}
"""


@twin_of("attention")
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
    noise: Noise | None = None,
) -> Any:
    """`ops.attention` for the heads of some texts, with a launch between products either way."""
    check_attention(q, k, v)
    check_rate(dropout, "attention: dropout")
    (*lead, T, D), S = q.shape, k.shape[-2]
    same = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype
    rows = math.prod(lead) * T
    usual = same and len(lead) == 2 and q.size and k.size and v.size and rows < 1 << 31
    if not (usual and _fits(allowed, (*lead, T, S))):
        options = {"causal": causal, "scale": scale, "dropout": dropout, "noise": noise}
        return formula.__wrapped__(xp, q, k, v, allowed, **options)  # type: ignore[attr-defined]
    scale = 1 / math.sqrt(D) if scale is None else scale
    mask = None if allowed is None else xp.broadcast_to(allowed, (*lead, T, S))
    pairs = np.zeros((), PAIRS)
    pairs[...] = (
        rows, *(mask.strides if mask is not None else (0,) * 4),
        mask.data.ptr if mask is not None else 0, lead[1], T, S, S - T, causal, 0,
    )  # fmt: skip
    site = noise.site(dropout) if noise is not None and dropout else None
    more = q.dtype.type(scale), q.dtype.type(1 / (1 - dropout)), pairs, drops(site)

    def launch(name: str, *arrays: Array) -> None:
        run = program(xp, SOURCE, name, q.dtype)
        run(blocks_for(rows), (THREADS,), (*arrays, *more))

    weights = xp.matmul(q, k.swapaxes(-1, -2))
    used = xp.empty_like(weights) if site else weights
    launch("weigh", weights, used)
    y = xp.matmul(used, v)
    del used

    def vjp(g: Array, mask: Array = mask) -> tuple[Array, Array, Array, None]:
        # The mask is held here since programs know no more than where it lies.
        ds = xp.matmul(g, v.swapaxes(-1, -2))
        used = xp.empty_like(weights) if site else weights
        launch("weigh_back", weights, ds, used)
        # Of a product's two sides the small one is transposed: that copies it.
        dv = xp.matmul(g.swapaxes(-1, -2), used).swapaxes(-1, -2)
        dk = xp.matmul(q.swapaxes(-1, -2), ds).swapaxes(-1, -2)
        return xp.matmul(ds, k), dk, dv, None

    return y, vjp


def _fits(allowed: Mask, shape: tuple[int, ...]) -> bool:
    """Whether there is no mask, or one that fits; the formula says what is wrong with others."""
    if allowed is None:
        return True
    return bool(allowed.dtype == bool and np.broadcast_shapes(allowed.shape, shape) == shape)
