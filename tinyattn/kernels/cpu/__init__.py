"""Engine room, CPU: what makes NumPy fast. A file has the kernels of the formulas it names.

`tiles` and `pairs` cut arrays into pieces that fit a core's cache; `selected` is attention where
numbers are not finite.
"""

from tinyattn.kernels.cpu import attention, dropout, embedding, gelu, layer_norm, linear, sums
from tinyattn.kernels.cpu import optimizers

__all__ = ["attention", "dropout", "embedding", "gelu", "layer_norm", "linear", "optimizers",
           "sums"]  # fmt: skip
