"""The contender tinyattn, attention alone: forward and backward, causal, one thread."""

import numpy as np
from attention_inputs import WARM_UP, chosen, inputs, summary
from serving import serve

import tinyattn
from tinyattn import Tensor, ops
from tinyattn.parallel.threads import one_blas_thread


def both(q, k, v, g, probe) -> list[float]:
    leaves = [Tensor(a, requires_grad=True) for a in (q, k, v)]
    y = ops.attention(*leaves, causal=True)
    y.backward(g)
    return summary(probe, y.data, *(leaf.grad for leaf in leaves))


arrays = inputs(chosen().length)
with one_blas_thread():
    both(*inputs(WARM_UP))
    serve(lambda: both(*arrays), f"NumPy {np.__version__}, tinyattn {tinyattn.__version__}")
