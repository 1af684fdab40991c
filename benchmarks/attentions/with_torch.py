"""Attentions on PyTorch tensors: of PyTorch, transformers and x-transformers."""

import math
from types import SimpleNamespace
from typing import Any

import torch
from subject import ALL, Subject, refuse, width_of
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.models.llama.modeling_llama import eager_attention_forward
from x_transformers.attend import Attend

torch.set_num_threads(1)  # the arrays are small
Tensor = torch.Tensor


def sdpa(
    backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, causal: bool = False,
    scale: Any = None, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention, computed in one of its ways."""
    refuse(causal, mask is not None, why="causal with a mask")
    (*lead, T, D), E = q.shape, v.shape[-1]
    scale = max(1, D) ** -0.5 if scale is None else scale
    if backend is SDPBackend.FLASH_ATTENTION:  # it wants four axes and equal widths
        q, k, v = (four_axes(wider(x, width_of(q, v))) for x in (q, k, v))
        mask = None if mask is None else four_axes(mask)
    with sdpa_kernel(backend):
        y = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, dropout_p=dropout
        )
    return y.reshape(*lead, T, y.shape[-1])[..., :E]


def sdpa_math(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> Tensor:
    """Its formula."""
    return sdpa(SDPBackend.MATH, q, k, v, mask, **options)


def sdpa_flash(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> Tensor:
    """Its FlashAttention for the CPU."""
    return sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, mask, **options)


def multihead(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, need_weights: bool = True
) -> Tensor:
    """torch.nn.MultiheadAttention with one head and identity matrices."""
    (*lead, T, D), E, C = q.shape, v.shape[-1], width_of(q, v)
    q = q * (C / max(1, D)) ** 0.5  # it divides by the root of the padded width
    module = torch.nn.MultiheadAttention(C, 1, bias=False, batch_first=True, dtype=q.dtype)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.eye(C).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(C))
    q, k, v = (four_axes(wider(x, C))[:, 0] for x in (q, k, v))
    mask = None if mask is None else four_axes(mask)[:, 0]
    y, _ = module(q, k, v, attn_mask=mask, need_weights=need_weights)
    return y.reshape(*lead, T, C)[..., :E]


def multihead_fused(q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Tensor:
    """The same without its weights: PyTorch then calls scaled_dot_product_attention."""
    return multihead(q, k, v, mask, need_weights=False)


def eager(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, scale: Any = None, dropout: float = 0.0
) -> Tensor:
    """The eager attention of transformers' models, with the mask that transformers makes.

    It has the least number of the precision where a query may not attend.
    """
    *lead, T, D = q.shape
    scale = max(1, D) ** -0.5 if scale is None else scale
    if mask is not None:
        mask = four_axes(mask).clamp(min=torch.finfo(q.dtype).min)
    module: Any = SimpleNamespace(num_key_value_groups=1, training=dropout > 0)
    y, _ = eager_attention_forward(
        module, four_axes(q), four_axes(k), four_axes(v), mask, scaling=scale, dropout=dropout
    )
    return y.transpose(1, 2).reshape(*lead, T, v.shape[-1])


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, causal: bool = False, scale: Any = None,
    dropout: float = 0.0, flash: bool = False,
) -> Tensor:  # fmt: skip
    """Attend of x-transformers."""
    *lead, T, _ = q.shape
    module = Attend(causal=causal, flash=flash, scale=scale, dropout=dropout)
    mask = None if mask is None else four_axes(mask)
    y, _ = module(four_axes(q), four_axes(k), four_axes(v), mask=mask)
    return y.reshape(*lead, T, v.shape[-1])


def attend_flash(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> Tensor:
    """The same by PyTorch's scaled_dot_product_attention."""
    return attend(q, k, v, mask, flash=True, **options)


def wider(x: Tensor, width: int) -> Tensor:
    """x with zeros behind its elements."""
    return functional.pad(x, (0, width - x.shape[-1]))


def four_axes(x: Tensor) -> Tensor:
    """(.., T, D) -> (B, 1, T, D), as these libraries want it: one head."""
    *lead, T, D = x.shape
    return x.reshape(math.prod(lead), 1, T, D)


TORCH: dict[str, Any] = {"arrays": "torch"}
START = TORCH | {"causal_from": "start"}
SUBJECTS = [
    Subject("scaled_dot_product_attention, math", "torch", sdpa_math, ALL | {"dropout"}, START),
    Subject("scaled_dot_product_attention, flash", "torch", sdpa_flash, ALL, START),
    Subject("nn.MultiheadAttention", "torch", multihead, ALL - {"causal", "scale", "empty"},
            TORCH | {"mask": "masked", "no_key": "nan"}),
    Subject("nn.MultiheadAttention, need_weights=False", "torch", multihead_fused,
            ALL - {"causal", "scale", "empty"}, TORCH | {"mask": "masked"}),
    Subject("eager_attention_forward", "transformers", eager,
            (ALL | {"dropout"}) - {"causal", "float64"},
            TORCH | {"mask": "additive", "no_key": "mean"}),
    Subject("Attend", "x-transformers", attend, (ALL | {"dropout"}) - {"float64"}, TORCH),
    Subject("Attend, flash", "x-transformers", attend_flash, ALL, TORCH),
]  # fmt: skip
