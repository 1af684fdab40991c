"""Chapter 6: the device "cuda", which is opened at its first use.

A reader without a GPU can skip this. It is the only file of the book that imports CuPy.
"""

from __future__ import annotations

import os

from tinyattn.backend import OPENERS, Device, get_device

THREAD_STREAMS = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
"""The environment variable that gives each thread its own CUDA stream (queue of work)."""


def _open_cuda() -> Device:
    """Import CuPy and check that there is a GPU: the import also works without one."""
    try:
        import cupy
        from cupyx.scipy import special
    except ImportError as error:
        raise RuntimeError(
            "device 'cuda' needs CuPy; install it with: pip install 'tinyattn[cuda12]' "
            "(or [cuda13], to match your driver)"
        ) from error
    if not cupy.cuda.is_available():
        raise RuntimeError("device 'cuda': CuPy is installed, but found no NVIDIA GPU to use")
    if os.environ.get(THREAD_STREAMS, "0") not in ("", "0"):
        raise RuntimeError(
            f"device 'cuda': with {THREAD_STREAMS} threads do not wait for each other's work on "
            "the GPU, but a training step needs that they wait; unset it"
        )
    return Device("cuda", cupy, cupy.ndarray, cupy.asarray, cupy.asnumpy, special.erf)


OPENERS["cuda"] = _open_cuda


def describe_gpu() -> list[str]:
    """Lines of text about the GPU, its memory, and the part of it in CuPy's memory pool.

    Raises: RuntimeError if there is no GPU, see `get_device`.
    """
    cupy = get_device("cuda").xp
    facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    free, total = cupy.cuda.Device().mem_info
    pool = cupy.get_default_memory_pool()
    gigabyte = 1 << 30
    return [
        f"{facts['name'].decode()}, compute capability {facts['major']}.{facts['minor']}, "
        f"CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}",
        f"memory: {free / gigabyte:.1f} of {total / gigabyte:.1f} GB free; pool: "
        f"{pool.used_bytes() / gigabyte:.1f} GB in use, {pool.total_bytes() / gigabyte:.1f} held",
    ]
