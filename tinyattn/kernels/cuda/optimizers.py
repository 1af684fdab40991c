"""Engine room, CUDA: a training step from its gradients on, one thread for each element.

Nothing here waits for the GPU, which checks itself whether the loss is finite. If it is not, the
gradient becomes NaN, in this step and in all later ones. Where it is NaN, no parameter and no
optimizer state changes.
"""

from __future__ import annotations

import math
from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np

from tinyattn.backend import Array
from tinyattn.kernels.cpu.orthogonal import orthogonal
from tinyattn.kernels.cuda.program import program
from tinyattn.kernels.register import kernel

PIECES = 128
"""Arrays of one launch. Their addresses are its arguments, for which there are 4 kB."""
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
extern "C" __global__ void add_each(Pieces p) {  // blockIdx.y: which array
  T* sum = p.sums[blockIdx.y];
  const T* value = p.values[blockIdx.y];
  long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.sizes[blockIdx.y];
       i += stride)
    sum[i] += value[i];
}
"""
)

SGD = """
if (g == g) {
  m = momentum * m + g;
  w -= lr * (decay * w + m);
}
"""
ADAMW = """
if (g == g) {
  m = m * beta1 + g * rest1;
  v = v * beta2 + g * g * rest2;
  w = w * T(1 - lr * decay) - corrected * m / (sqrt(v) + eps);
}
"""
MOMENTUM = """
if (g == g) {
  m = momentum * m + g;
  u = g + momentum * m;
  w *= T(1 - lr * decay);
} else {
  u = 0;
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
    """`parallel.flat.add_each` in one launch for a hundred arrays."""
    for start in range(0, len(sums), PIECES):
        some = sums[start : start + PIECES]
        theirs = [xp.ascontiguousarray(value) for value in values[start : start + PIECES]]
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(some, theirs, strict=True)):
            raise ValueError("add_each: arrays and values must have the same shapes and dtypes")
        pieces = np.zeros((), ADDED)
        for name, entries in (
            ("sums", [a.data.ptr for a in some]),
            ("values", [a.data.ptr for a in theirs]),
            ("sizes", [a.size for a in some]),
        ):
            pieces[name][: len(some)] = entries
        run = program(xp, ADD_EACH, "add_each", some[0].dtype)
        run((BLOCKS, len(some)), (THREADS,), (pieces,))


@kernel("clip_factor", "cuda")
def clip_factor(
    xp: Any, losses: list[Array], squares: list[Array], clip: float, failed: Array
) -> tuple[Array, Array, Array]:
    """`parallel.shards.clip_factor`; sets `failed` if the loss or the norm is not finite."""
    run = _elementwise(
        xp, "T loss, T square, float64 clip", "T norm, T factor, int32 failed", CLIP, "clip"
    )
    loss, square = reduce(add, losses), reduce(add, squares)
    norm, factor = (xp.empty(1, dtype=square.dtype) for _ in range(2))
    run(loss, square, clip, norm, factor, failed)
    return loss, norm[0], factor[0]


@kernel("sgd", "cuda")
def sgd(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, lr: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """`training.optimizers.sgd` in one launch."""
    run = _elementwise(xp, "T g, T lr, T decay, T momentum", "T w, T m", SGD, "sgd")
    run(g, lr, decay, momentum, w, m)


@kernel("adamw", "cuda")
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """`training.optimizers.adamw` in one launch."""
    run = _elementwise(
        xp, "T g, T beta1, T rest1, T beta2, T rest2, float64 lr, T corrected, T eps, T decay",
        "T w, T m, T v", ADAMW, "adamw",
    )  # fmt: skip
    correct = math.sqrt(1 - beta2**t)
    corrected = lr * correct / (1 - beta1**t)
    run(g, beta1, 1 - beta1, beta2, 1 - beta2, lr, corrected, eps * correct, decay, w, m, v)


@kernel("muon", "cuda")
def muon(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, lr: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """`training.muon.muon` with one launch before its matrix products, and one after."""
    run = _elementwise(
        xp, "T g, float64 lr, T decay, T momentum", "T w, T m, T u", MOMENTUM, "momentum"
    )
    u = xp.empty_like(g)
    run(g, lr, decay, momentum, w, m, u)
    u = orthogonal(xp, u)
    move = _elementwise(xp, "T u, T size", "T w", "w -= size * u", "move")
    move(u, lr * math.sqrt(max(1.0, w.shape[-1] / w.shape[-2])), w)
