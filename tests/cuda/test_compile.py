"""NVIDIA's own compiler accepts the CUDA sources: it needs no GPU, and is stricter than g++."""

import ctypes
import importlib.util
from pathlib import Path

import pytest

from tinyattn.kernels.cuda import (
    attention,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    optimizers,
    rotary,
)
from tinyattn.kernels.cuda.program import COMMON


def compiler() -> ctypes.CDLL | None:
    """NVRTC from its wheel, if that is installed."""
    try:
        found = importlib.util.find_spec("nvidia")
    except ModuleNotFoundError:
        return None
    for folder in (found.submodule_search_locations or []) if found else []:
        for library in Path(folder).rglob("libnvrtc.so.*"):
            return ctypes.CDLL(str(library))
    return None


NVRTC = compiler()
SOURCES = {"attention": attention.SOURCE, "cross_entropy": cross_entropy.SOURCE,
           "dropout": dropout.SOURCE, "embedding": embedding.SOURCE,
           "layer_norm": layer_norm.SOURCE, "add_each": optimizers.ADD_EACH}  # fmt: skip
BODIES = {
    "gelu exact": ("T x, T& y, T& slope", gelu.EXACT),
    "gelu tanh": ("T x, T& y, T& slope", gelu.TANH),
    "rotate": ("T even, T odd, T cosine, T sine, T& y_even, T& y_odd", f"{rotary.ROTATE};"),
    "sgd": ("T g, T lr, T decay, T momentum, T& w, T& m", optimizers.SGD),
    "adamw": ("T g, T beta1, T rest1, T beta2, T rest2, double lr, T corrected, T eps, T decay, "
              "T& w, T& m, T& v", optimizers.ADAMW),
    "momentum": ("T g, double lr, T decay, T momentum, T& w, T& m, T& u", optimizers.MOMENTUM),
    "clip": ("T loss, T square, double clip, T& norm, T& factor, int& failed", optimizers.CLIP),
}  # fmt: skip


def compile_with(source: str) -> str:
    """The messages of the compiler; empty if there is no error."""
    assert NVRTC is not None
    program = ctypes.c_void_p()
    NVRTC.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90", b"-std=c++17")
    failed = NVRTC.nvrtcCompileProgram(program, 2, options)
    size = ctypes.c_size_t()
    NVRTC.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    NVRTC.nvrtcGetProgramLog(program, log)
    return log.value.decode() if failed else ""


@pytest.mark.gpu
@pytest.mark.skipif(NVRTC is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("number", ["float", "double"])
@pytest.mark.parametrize("name", [*SOURCES, *BODIES])
def test_a_program_is_cuda(name: str, number: str) -> None:
    source = SOURCES.get(name, "")
    if name in BODIES:  # as CuPy adds it around them
        arguments, body = BODIES[name]
        source = f"__device__ void body({arguments}) {{ {body} }}\n"
    assert compile_with(f"typedef {number} T;\n{COMMON}\n{source}") == ""
