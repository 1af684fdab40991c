"""Engine room, CUDA: from CUDA source to a function.

A program is written once for all precisions: T is the type of its numbers. CuPy compiles it when
it is first launched, and keeps it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinyattn.noise import Site

THREADS = 128
"""Threads of a block, four warps, in programs that have a row for each warp."""
WARP = 32

COMMON = r"""
// NVIDIA's compiler at run time has no header that defines these.
#define INFINITE T(__int_as_float(0x7f800000))
#define NO_NUMBER T(__int_as_float(0x7fffffff))

// What all 32 threads of a warp hold, summed up, or the largest; each of them gets it.
__device__ T warp_sum(T x) {
  for (int lane = 16; lane; lane /= 2) x += __shfl_xor_sync(0xffffffff, x, lane);
  return x;
}
__device__ T warp_max(T x) {
  for (int lane = 16; lane; lane /= 2) x = max(x, __shfl_xor_sync(0xffffffff, x, lane));
  return x;
}

// Where numbers are dropped: a Site of noise.py, its key in two halves and its rate in 256ths,
// `whole` and, in a share of the rows, one more.
struct Drops {
  unsigned any, first_row, row_key, key, whole, share;
};
// The random bits of noise.py: its hash of a key and a counter.
__device__ unsigned hashed(unsigned row_key, unsigned counter, unsigned key) {
  unsigned x = counter ^ key;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  unsigned bits = row_key ^ x;
  bits ^= bits >> 15;
  bits *= 0x846CA68Bu;
  return bits ^ bits >> 16;
}
// Whether the element in this column is kept: eight of its word's bits decide.
__device__ bool kept(unsigned row_key, unsigned column, Drops d) {
  unsigned draw = hashed(row_key, column / 4, d.key) >> column % 4 * 8 & 255;
  return draw >= d.whole + (row_key < d.share);
}
"""


DROPS = np.dtype(
    [(name, "u4") for name in ("any", "first_row", "row_key", "key", "whole", "share")]
)


def drops(site: Site | None) -> Any:
    """A site's `Drops`, which a program takes by value; or that nothing is dropped."""
    found = np.zeros((), DROPS)
    if site is not None:
        whole, rest = divmod(site.rate * 256, 1)
        key = site.key & 0xFFFFFFFF
        found[...] = 1, site.first_row, site.key >> 32, key, int(whole), int(rest * 2**32)
    return found


@cache
def _compiled(xp: Any, source: str, name: str, number: str) -> Any:
    return xp.RawKernel(f"typedef {number} T;\n{COMMON}\n{source}", name)


def program(xp: Any, source: str, name: str, dtype: Any) -> Any:
    """The kernel `name` of a CUDA source, for numbers of this dtype, float32 or float64."""
    return _compiled(xp, source, name, {4: "float", 8: "double"}[np.dtype(dtype).itemsize])


def blocks_for(rows: int) -> tuple[int]:
    """The grid for a program that has one warp for each row."""
    return (-(-rows * WARP // THREADS),)
