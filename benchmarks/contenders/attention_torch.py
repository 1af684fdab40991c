"""The contender PyTorch, attention alone: forward and backward, causal, one thread."""

import math

import torch
from attention_inputs import WARM_UP, chosen, inputs, summary
from serving import serve
from torch.nn import functional as F

torch.set_num_threads(1)
fused = chosen().sdpa


def explicit(q, k, v):
    T = q.shape[2]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -1e10).softmax(-1) @ v


def both_ways(q, k, v, g) -> list[float]:
    leaves = [a.clone().requires_grad_() for a in (q, k, v)]
    if fused:
        y = F.scaled_dot_product_attention(*leaves, is_causal=True)
    else:
        y = explicit(*leaves)
    y.backward(g)
    return summary(y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves))


texts = [torch.from_numpy(a) for a in inputs(chosen().length)]
both_ways(*(torch.from_numpy(a) for a in inputs(WARM_UP)))
serve(lambda: both_ways(*texts), f"torch {torch.__version__}")
