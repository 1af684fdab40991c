"""Engine room, CPU: kernels for NumPy. Each file names the formulas that its kernels compute.

`tiles` and `pairs` cut arrays into tiles that fit the cache of a core; `selected` computes
attention where elements are not finite.
"""

from tinyattn.kernels.cpu import attention, dropout, embedding, gelu, layer_norm, linear, sums
from tinyattn.kernels.cpu import optimizers

__all__ = ["attention", "dropout", "embedding", "gelu", "layer_norm", "linear", "optimizers",
           "sums"]  # fmt: skip
