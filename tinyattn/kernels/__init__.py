"""Engine room: kernels, faster versions of the formulas.

The package works without this folder: then the formulas compute everything (dispatch.py). The
kernels in `cpu` work on tiles that fit the cache of a core, and reuse buffers; those in `cuda` run
programs on a GPU; those in `numba` are compiled loops for the CPU.
"""

from tinyattn.kernels import cpu, cuda, numba

__all__ = ["cpu", "cuda", "numba"]
