"""Engine room, CUDA: programs for a GPU.

A file has the kernels of the formulas of that name, with the CUDA source that they launch if they
are not made of products alone; program.py compiles the sources. Tests hold each to its formula, on
a GPU or, compiled by g++, on the CPU. Read them in this order.
"""

from tinyattn.kernels.cuda import program
from tinyattn.kernels.cuda import gelu
from tinyattn.kernels.cuda import layer_norm
from tinyattn.kernels.cuda import cross_entropy
from tinyattn.kernels.cuda import embedding
from tinyattn.kernels.cuda import products
from tinyattn.kernels.cuda import linear
from tinyattn.kernels.cuda import rotary
from tinyattn.kernels.cuda import dropout
from tinyattn.kernels.cuda import attention
from tinyattn.kernels.cuda import optimizers

__all__ = [
    "attention", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear",
    "optimizers", "products", "program", "rotary",
]  # fmt: skip
