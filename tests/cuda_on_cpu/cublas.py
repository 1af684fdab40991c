"""Matrix products, which CuPy computes with cuBLAS, by NumPy.

cuBLAS stores matrices column by column, and its arguments are addresses. The names of functions
and constants are NVIDIA's.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

import numpy as np

from cuda_on_cpu.functions import DEVICE

FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = 0, 1, 2, 14  # cudaDataType


def _dtype(number: int) -> np.dtype[Any]:
    if number == BFLOAT16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({FLOAT32: "f4", FLOAT64: "f8", FLOAT16: "f2"}[number])


def _matrix(address: int, rows: int, columns: int, apart: int, dtype: np.dtype[Any]) -> np.ndarray:
    """The matrix at an address, with `apart` elements from column to column."""
    numbers = (columns - 1) * apart + rows
    memory = (ctypes.c_char * (numbers * dtype.itemsize)).from_address(address)
    strides = (dtype.itemsize, apart * dtype.itemsize)
    return np.ndarray((rows, columns), dtype, memory, strides=strides)


def _number(address: int, kind: int) -> float:
    c_type = ctypes.c_double if kind == FLOAT64 else ctypes.c_float
    return float(c_type.from_address(address).value)


def _rounded(a: np.ndarray, bits: int) -> np.ndarray:
    """Round each float32 to this many bits, with the leading one."""
    lost = 24 - bits
    whole = np.ascontiguousarray(a).view(np.uint32)
    up = (1 << (lost - 1)) - 1 + (whole >> lost & 1)  # ties are rounded to even
    return ((whole + up) >> lost << lost).astype(np.uint32).view(np.float32)


def _product(
    trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, a: int, a_kind: int, lda: int,
    b: int, b_kind: int, ldb: int, beta: int, c: int, c_kind: int, ldc: int, tf32: bool = False,
) -> None:  # fmt: skip
    """C = alpha·A B + beta·C, with A or B transposed if the arguments say so."""
    A = _matrix(a, *((k, m) if trans_a else (m, k)), lda, _dtype(a_kind))
    B = _matrix(b, *((n, k) if trans_b else (k, n)), ldb, _dtype(b_kind))
    C = _matrix(c, m, n, ldc, _dtype(c_kind))
    wide = np.float64 if c_kind == FLOAT64 else np.float32
    A, B = (A.T if trans_a else A).astype(wide), (B.T if trans_b else B).astype(wide)
    with np.errstate(all="ignore"):  # a GPU does not warn
        result = _rounded(A, 11) @ _rounded(B, 11) if tf32 else A @ B
    result *= _number(alpha, c_kind)
    if old := _number(beta, c_kind):
        result += old * C.astype(wide)
    C[...] = result


def gemmEx(
    handle: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, A: int,
    a_kind: int, lda: int, B: int, b_kind: int, ldb: int, beta: int, C: int, c_kind: int, ldc: int,
    compute: int, algorithm: int,
) -> None:  # fmt: skip
    _product(trans_a, trans_b, m, n, k, alpha, A, a_kind, lda, B, b_kind, ldb, beta, C, c_kind, ldc,
             tf32=compute == CONSTANTS["CUBLAS_COMPUTE_32F_FAST_TF32"])  # fmt: skip


def gemmStridedBatchedEx(
    handle: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, A: int,
    a_kind: int, lda: int, a_apart: int, B: int, b_kind: int, ldb: int, b_apart: int, beta: int,
    C: int, c_kind: int, ldc: int, c_apart: int, count: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    for i in range(count):
        a, b, c = (
            start + i * apart * _dtype(kind).itemsize
            for start, apart, kind in ((A, a_apart, a_kind), (B, b_apart, b_kind),
                                       (C, c_apart, c_kind))
        )  # fmt: skip
        _product(trans_a, trans_b, m, n, k, alpha, a, a_kind, lda, b, b_kind, ldb, beta, c, c_kind,
                 ldc)  # fmt: skip


def _listed(kind: int) -> Any:
    """A function that takes lists of addresses."""

    def gemmBatched(
        handle: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, A: int,
        lda: int, B: int, ldb: int, beta: int, C: int, ldc: int, count: int,
    ) -> None:  # fmt: skip
        lists = [(ctypes.c_size_t * count).from_address(at) for at in (A, B, C)]
        for a, b, c in zip(*lists, strict=True):
            _product(
                trans_a, trans_b, m, n, k, alpha, a, kind, lda, b, kind, ldb, beta, c, kind, ldc
            )

    return gemmBatched


CONSTANTS = {
    "CUBLAS_OP_N": 0, "CUBLAS_OP_T": 1, "CUBLAS_OP_C": 2,
    "CUBLAS_GEMM_DEFAULT": -1, "CUBLAS_GEMM_DEFAULT_TENSOR_OP": 99,
    "CUBLAS_DEFAULT_MATH": 0, "CUBLAS_TENSOR_OP_MATH": 1, "CUBLAS_TF32_TENSOR_OP_MATH": 3,
    "CUBLAS_COMPUTE_32F": 68, "CUBLAS_COMPUTE_32F_PEDANTIC": 69,
    "CUBLAS_COMPUTE_32F_FAST_TF32": 77, "CUBLAS_COMPUTE_64F": 70,
    "CUBLAS_COMPUTE_64F_PEDANTIC": 71,
}  # fmt: skip


class Library(ModuleType):
    """A library of NVIDIA that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"{self.__name__}.{name} cannot be done on the CPU")


def put_in_place() -> None:
    """Offer CuPy the libraries that it imports."""
    import cupy_backends.cuda.libs as libs

    for name in ("cublas", "curand", "cusolver", "cusparse"):
        library = Library(f"cupy_backends.cuda.libs.{name}")
        sys.modules[library.__name__] = library
        setattr(libs, name, library)
    cublas: Any = libs.cublas
    for name, value in CONSTANTS.items():
        setattr(cublas, name, value)
    cublas.create = lambda: 1
    for name in ("destroy", "setStream", "setMathMode"):
        setattr(cublas, name, lambda *args: None)
    products = {"gemmEx": gemmEx, "gemmStridedBatchedEx": gemmStridedBatchedEx,
                "sgemmBatched": _listed(FLOAT32), "dgemmBatched": _listed(FLOAT64)}  # fmt: skip
    for name, body in products.items():

        def call(*args: Any, name: str = name, body: Any = body) -> None:
            if DEVICE.note(f"cublas.{name}"):
                body(*args)

        setattr(cublas, name, call)
