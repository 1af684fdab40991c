"""The replacement of CUDA: handwritten kernels work as on a GPU, and mistakes raise errors."""

import sys
from typing import Any

import numpy as np
import pytest

from cuda_on_cpu import DEVICE, needs_it

pytestmark = needs_it


@pytest.fixture
def cupy() -> Any:
    import cupy

    return cupy


def test_cupy_itself_computes(cupy: Any) -> None:
    """Its loops, strides, reductions, products and atomic additions."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 5, 2))
    x, y = cupy.asarray(a), cupy.asarray(b)
    for found, expected in (
        (cupy.exp(x[::2, 1:]) * 2, np.exp(a[::2, 1:]) * 2),
        (x.sum(axis=1), a.sum(axis=1)),
        (x.max(axis=-1, keepdims=True), a.max(axis=-1, keepdims=True)),
        (x @ y, a @ b),
        (x[0] @ x[1].T, a[0] @ a[1].T),
        (cupy.concatenate([x, x + 1], axis=2), np.concatenate([a, a + 1], axis=2)),
    ):
        np.testing.assert_allclose(cupy.asnumpy(found), expected, rtol=1e-12)
    total = cupy.zeros(3)
    cupy.add.at(total, cupy.asarray([0, 2, 0, 0]), cupy.asarray([1.0, 2.0, 3.0, 4.0]))
    assert cupy.asnumpy(total).tolist() == [8, 0, 2]


SUM = r"""
extern "C" __global__ void sums(const float* x, float* y, int n) {
  __shared__ float of_warps[4];
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += x[blockIdx.x * n + i];
  for (int lane = 16; lane; lane /= 2) mine += __shfl_xor_sync(0xffffffff, mine, lane);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3];
}
"""


def test_threads_wait_for_each_other_and_exchange_values(cupy: Any) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 333)).astype(np.float32)
    y = cupy.zeros(6, cupy.float32)
    cupy.RawKernel(SUM, "sums")((6,), (128,), (cupy.asarray(x), y, np.int32(333)))
    assert cupy.asnumpy(y).tolist() == x.sum(axis=1).tolist()


def test_threads_that_wait_for_ever_raise_an_error(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "float mine = 0;"
    apart = SUM.replace(start, f"{start} if (threadIdx.x) __syncwarp(); else __syncthreads();")
    x, y = cupy.zeros((1, 4), cupy.float32), cupy.zeros(1, cupy.float32)
    kernel = cupy.RawKernel(apart, "sums")
    caught: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", caught.append)
    with pytest.raises(SystemError):
        kernel((1,), (128,), (x, y, np.int32(4)))
    assert "sums: threads of a block wait for each other in different" in str(caught[0].exc_value)
    test_threads_wait_for_each_other_and_exchange_values(cupy)


def test_a_kernel_that_is_not_cuda_is_refused(cupy: Any) -> None:
    from cupy.cuda.compiler import CompileException

    with pytest.raises(CompileException, match="nonsense"):
        cupy.RawKernel('extern "C" __global__ void f() { nonsense; }', "f")((1,), (1,), ())


def test_new_memory_contains_nan(cupy: Any) -> None:
    cupy.get_default_memory_pool().free_all_blocks()
    assert np.isnan(cupy.asnumpy(cupy.empty(10**6, cupy.float32))).all()


def test_launches_and_copies_are_counted(cupy: Any) -> None:
    x = cupy.asarray(np.ones(3, np.float32))
    with DEVICE.recorded() as record:
        y = cupy.asarray(np.ones(5, np.float32))
        cupy.exp(x) + 1
        (y[:, None] @ y[None])[0, :1].get()
    assert record.launches == [
        "cupy_exp__float32_float32",
        "cupy_add__float32_float_float32",
        "cublas.gemmEx",
    ]
    assert (record.to_device, record.to_host) == ([20], [4])
    with DEVICE.recorded(dry=True) as record:
        x *= 2
    assert len(record.launches) == 1 and cupy.asnumpy(x).tolist() == [1, 1, 1]
