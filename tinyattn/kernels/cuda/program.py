"""Engine room, CUDA: from CUDA source to a function.

A program is written once for both dtypes: T is the type of its elements. CuPy compiles it when it
is first launched, and caches it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinyattn.rng import DropoutMask

THREADS = 128
"""Threads of a thread block: four warps, in programs that compute one row a warp."""
WARP = 32

COMMON = r"""
// NVIDIA's run-time compiler has no header that defines these.
#define INFINITE T(__int_as_float(0x7f800000))
#define NO_NUMBER T(__int_as_float(0x7fffffff))

// The sum or the maximum of x over the 32 threads of a warp; each thread gets it.
__device__ T warp_sum(T x) {
  for (int lane = 16; lane; lane /= 2) x += __shfl_xor_sync(0xffffffff, x, lane);
  return x;
}
__device__ T warp_max(T x) {
  for (int lane = 16; lane; lane /= 2) x = max(x, __shfl_xor_sync(0xffffffff, x, lane));
  return x;
}

// A DropoutMask of rng.py: its key in two halves, and its dropout probability in 256ths, `whole`
// or, in rows whose key is below `share`, one more.
struct Drops {
  unsigned any, first_row, row_key, key, whole, share;
};
// The random bits of rng.py: its hash of a key and a counter.
__device__ unsigned hashed(unsigned row_key, unsigned counter, unsigned key) {
  unsigned x = counter ^ key;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  unsigned bits = row_key ^ x;
  bits ^= bits >> 15;
  bits *= 0x846CA68Bu;
  return bits ^ bits >> 16;
}
// Whether the element in this column is kept: eight bits of its word decide.
__device__ bool kept(unsigned row_key, unsigned column, Drops d) {
  unsigned draw = hashed(row_key, column / 4, d.key) >> column % 4 * 8 & 255;
  return draw >= d.whole + (row_key < d.share);
}
"""


DROPS = np.dtype(
    [(name, "u4") for name in ("any", "first_row", "row_key", "key", "whole", "share")]
)


def drops(dropout_mask: DropoutMask | None) -> Any:
    """The `Drops` of a dropout mask, which a program takes by value; None drops nothing."""
    found = np.zeros((), DROPS)
    if dropout_mask is not None:
        whole, rest = divmod(dropout_mask.rate * 256, 1)
        key = dropout_mask.key & 0xFFFFFFFF
        found[...] = (
            1,
            dropout_mask.first_row,
            dropout_mask.key >> 32,
            key,
            int(whole),
            int(rest * 2**32),
        )
    return found


@cache
def _compiled(xp: Any, source: str, name: str, ctype: str) -> Any:
    return xp.RawKernel(f"typedef {ctype} T;\n{COMMON}\n{source}", name)


def program(xp: Any, source: str, name: str, dtype: Any) -> Any:
    """The kernel `name` of a CUDA source, for elements of this dtype, float32 or float64."""
    return _compiled(xp, source, name, {4: "float", 8: "double"}[np.dtype(dtype).itemsize])


def blocks_for(rows: int) -> tuple[int]:
    """The grid of a program that has one warp for each row."""
    return (-(-rows * WARP // THREADS),)
