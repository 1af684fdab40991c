"""Engine room, Numba: kernels of compiled loops for the CPU, if the extra `fast` is installed.

A NumPy kernel passes over a tile once for every operation. A loop that Numba compiles passes over
it once for all of them, so these kernels are tried before those of `kernels/cpu` (dispatch.ROOMS).
Matrix products stay with NumPy. The loops themselves are in `loops`, which imports Numba; it is
imported at the first call, because that takes half a second.
"""

from tinyattn.kernels.numba import adamw, attention, dropout, gelu, layer_norm

__all__ = ["adamw", "attention", "dropout", "gelu", "layer_norm"]
