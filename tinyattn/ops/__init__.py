"""Operations: each is a function of arrays that returns its value and its vjp.

The imports are in reading order: operations for attention, then for a GPT, then all others, which
can be skipped until they are needed.
"""

from tinyattn.ops.softmax import softmax
from tinyattn.ops.dropout import dropout
from tinyattn.ops.attention import attention
from tinyattn.ops.linear import linear

from tinyattn.ops.normalization import layer_norm
from tinyattn.ops.gelu import gelu
from tinyattn.ops.embedding import embedding
from tinyattn.ops.loss import cross_entropy, log_softmax

from tinyattn.ops.arithmetic import add, divide, multiply, negative, power, subtract
from tinyattn.ops.functions import absolute, erf, exp, log, relu, sigmoid, sqrt, tanh
from tinyattn.ops.selection import clip, maximum, minimum, where
from tinyattn.ops.reduce import cumsum, logsumexp, max, mean, min, norm, std, sum, var
from tinyattn.ops.shape import broadcast_to, concatenate, expand_dims, flip, pad, reshape, split
from tinyattn.ops.shape import squeeze, stack, swapaxes, transpose, tril
from tinyattn.ops.indexing import gather, getitem, scatter_add, take
from tinyattn.ops.matmul import matmul
from tinyattn.ops.einsum import einsum
from tinyattn.ops.rotary import rotate

__all__ = [
    "absolute", "add", "attention", "broadcast_to", "clip", "concatenate", "cross_entropy",
    "cumsum", "divide", "dropout", "einsum", "embedding", "erf", "exp", "expand_dims", "flip",
    "gather", "gelu", "getitem", "layer_norm", "linear", "log", "log_softmax", "logsumexp",
    "matmul", "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "norm", "pad",
    "power", "relu", "reshape", "rotate", "scatter_add", "sigmoid", "softmax", "split", "sqrt",
    "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "tanh", "transpose", "tril",
    "var", "where",
]  # fmt: skip
