"""Engine room, CPU: kernels for NumPy. Each file names the formulas that its kernels compute.

`decoding` calls them for each generated token. `tiles` and `pairs` cut arrays into tiles that fit
the cache of a core; `selected` computes attention where elements are not finite.
"""

from tinyattn.kernels.cpu import attention, cross_entropy, decoding, dropout, embedding, gelu
from tinyattn.kernels.cpu import layer_norm, linear, optimizers, sums

__all__ = ["attention", "cross_entropy", "decoding", "dropout", "embedding", "gelu", "layer_norm",
           "linear", "optimizers", "sums"]  # fmt: skip
