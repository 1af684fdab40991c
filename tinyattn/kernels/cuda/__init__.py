"""Engine room, CUDA: kernels for a GPU.

Each file has the kernels of the formula it is named after, and their CUDA source, unless they
consist of matrix products alone; program.py compiles the sources. Tests compare each kernel with
its formula, on a GPU or, compiled by g++, on the CPU. Read the files in this order.
"""

from tinyattn.kernels.cuda import program
from tinyattn.kernels.cuda import gelu
from tinyattn.kernels.cuda import layer_norm
from tinyattn.kernels.cuda import cross_entropy
from tinyattn.kernels.cuda import embedding
from tinyattn.kernels.cuda import precision
from tinyattn.kernels.cuda import linear
from tinyattn.kernels.cuda import rotary
from tinyattn.kernels.cuda import dropout
from tinyattn.kernels.cuda import attention
from tinyattn.kernels.cuda import optimizers

__all__ = [
    "attention", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear",
    "optimizers", "precision", "program", "rotary",
]  # fmt: skip
