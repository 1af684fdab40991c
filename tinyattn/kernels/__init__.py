"""Engine room: kernels, which compute what formulas say, faster.

It can be skipped, and deleted: then the formulas compute (dispatch.py). `cpu` has what makes NumPy
fast, tiles that fit a core's cache and buffers that are used again; `cuda` has programs for a GPU.
"""

from tinyattn.kernels import cpu, cuda

__all__ = ["cpu", "cuda"]
