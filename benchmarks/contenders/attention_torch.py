"""The contender PyTorch, attention alone: forward and backward, causal, one thread."""

import functools
import math

import torch
from attention_inputs import WARM_UP, chosen, inputs, summary
from serving import serve
from torch.nn import functional as F

torch.set_num_threads(1)
fused = chosen().sdpa


@functools.cache
def future(T: int):
    """True where a query must not attend; cached, as a model keeps it from step to step."""
    return torch.ones(T, T, dtype=torch.bool).triu(1)


def explicit(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
    return scores.masked_fill(future(q.shape[2]), -1e10).softmax(-1) @ v


def both(q, k, v, g, probe) -> list[float]:
    leaves = [a.clone().requires_grad_() for a in (q, k, v)]
    if fused:
        y = F.scaled_dot_product_attention(*leaves, is_causal=True)
    else:
        y = explicit(*leaves)
    y.backward(g)
    results = (y.detach(), *(leaf.grad for leaf in leaves))
    return summary(*(a.numpy() for a in (probe, *results)))


arrays = [torch.from_numpy(a) for a in inputs(chosen().length)]
both(*(torch.from_numpy(a) for a in inputs(WARM_UP)))
serve(lambda: both(*arrays), f"torch {torch.__version__}")
