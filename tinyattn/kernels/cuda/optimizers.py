"""Chapter 3, continued: a step of training, after its gradients, one thread for each parameter.

Nothing here waits for the GPU. Whether the loss is a number is found out there, and if not, the
gradient becomes NaN, here and in all later steps; and where it is NaN nothing moves. Next: the
checks of all gradients (gradcheck.py).
"""

from __future__ import annotations

from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.dispatch import kernel
from tinyattn.kernels.cuda.program import program

PIECES = 128
"""Arrays of one launch: their addresses are its arguments, of which there is room for 4 kB."""
THREADS, BLOCKS = 256, 64

ADDED = np.dtype(
    [("sums", "u8", (PIECES,)), ("values", "u8", (PIECES,)), ("sizes", "i8", (PIECES,))]
)

ADD_EACH = (
    f"#define PIECES {PIECES}\n"
    + r"""
struct Pieces {
  T* sums[PIECES];
  const T* values[PIECES];
  long long sizes[PIECES];
};
extern "C" __global__ void add_each(Pieces p) {  // blockIdx.y: which
  T* sum = p.sums[blockIdx.y];
  const T* value = p.values[blockIdx.y];
  long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.sizes[blockIdx.y];
       i += stride)
    sum[i] += value[i];
}
"""
)

ADAMW = """
if (g == g) {
  m = m * b1 + g * rest1;
  v = v * b2 + g * g * rest2;
  w = (i < decayed ? w * shrink : w) - rate * m / (sqrt(v) + eps);
}
"""
MOMENTUM = """
if (g == g) {
  m = momentum * m + g;
  g += momentum * m;
  w *= shrink;
} else {
  g = 0;
}
"""
CLIP = """
const T nothing = __int_as_float(0x7fffffff);  // NaN
T size = sqrt(square);
if (!isfinite(loss) || !isfinite(size)) failed = 1;
norm = failed && isfinite(size) ? nothing : size;
factor = failed ? nothing : size > clip ? clip / (size + T(1e-6)) : T(1);
"""


@cache
def _elementwise(xp: Any, inputs: str, outputs: str, body: str, name: str) -> Any:
    return xp.ElementwiseKernel(inputs, outputs, body, f"tinyattn_{name}")


@kernel("add_each", "cuda")
def add_each(xp: Any, sums: list[Array], values: list[Array]) -> None:
    """`training.parameters.add_each` in one launch for a hundred arrays."""
    for start in range(0, len(sums), PIECES):
        some = sums[start : start + PIECES]
        theirs = [xp.ascontiguousarray(value) for value in values[start : start + PIECES]]
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(some, theirs, strict=True)):
            raise ValueError("add_each: each array needs another one of its shape and precision")
        pieces = np.zeros((), ADDED)
        for name, numbers in (
            ("sums", [a.data.ptr for a in some]),
            ("values", [a.data.ptr for a in theirs]),
            ("sizes", [a.size for a in some]),
        ):
            pieces[name][: len(some)] = numbers
        run = program(xp, ADD_EACH, "add_each", some[0].dtype)
        run((BLOCKS, len(some)), (THREADS,), (pieces,))


@kernel("clip_factor", "cuda")
def clip_factor(
    xp: Any, losses: list[Array], squares: list[Array], clip: float, failed: Array
) -> tuple[Array, Array, Array]:
    """`training.step.clip_factor`, which notes in `failed` that something was not a number."""
    run = _elementwise(
        xp, "T loss, T square, float64 clip", "T norm, T factor, int32 failed", CLIP, "clip"
    )
    loss, square = reduce(add, losses), reduce(add, squares)
    norm, factor = (xp.empty(1, dtype=square.dtype) for _ in range(2))
    run(loss, square, clip, norm, factor, failed)
    return loss, norm[0], factor[0]


@kernel("adamw", "cuda")
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, b1: float, b2: float, rate: float, eps: float,
    shrink: float, decayed: int,
) -> None:  # fmt: skip
    """`training.optimizers.adamw` in one launch."""
    run = _elementwise(
        xp, "T g, T b1, T rest1, T b2, T rest2, T rate, T eps, T shrink, int64 decayed",
        "T w, T m, T v", ADAMW, "adamw",
    )  # fmt: skip
    run(g, b1, 1 - b1, b2, 1 - b2, rate, eps, shrink, decayed, w, m, v)


@kernel("muon_momentum", "cuda")
def muon_momentum(xp: Any, w: Array, g: Array, m: Array, momentum: float, shrink: float) -> None:
    """`training.optimizers.muon_momentum` in one launch."""
    run = _elementwise(xp, "T momentum, T shrink", "T w, T g, T m", MOMENTUM, "momentum")
    run(momentum, shrink, w, g, m)
