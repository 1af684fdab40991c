"""Chapter 5: attention. One mechanism a file, all with one contract (block.py)."""

from tinyattn.attention.masks import causal, padding
from tinyattn.attention.core import attend, merge_heads, split_heads
from tinyattn.attention.block import AttentionBlock, KeyValueCache
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.registry import ATTENTION

__all__ = [
    "ATTENTION", "AttentionBlock", "KeyValueCache", "MultiHead", "attend", "causal",
    "merge_heads", "padding", "split_heads",
]  # fmt: skip
