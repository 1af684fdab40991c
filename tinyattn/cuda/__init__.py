"""Chapter 3, continued: the same once more, as programs for a GPU. It can be skipped.

Each file has the CUDA source of one idea and the function that launches it, which takes the place
of the formula of that name (twins.py). Tests hold each to its formula, on a GPU or, compiled by
g++, on the CPU. Read them in this order.
"""

from tinyattn.cuda import program
from tinyattn.cuda import gelu
from tinyattn.cuda import layer_norm
from tinyattn.cuda import cross_entropy
from tinyattn.cuda import embedding
from tinyattn.cuda import products
from tinyattn.cuda import linear
from tinyattn.cuda import rotary
from tinyattn.cuda import dropout
from tinyattn.cuda import attention
from tinyattn.cuda import optimizers

__all__ = [
    "attention", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear",
    "optimizers", "products", "program", "rotary",
]  # fmt: skip
