"""Chapter 5: attention. Mechanisms that are alike share a file, and all keep one contract
(block.py)."""

from tinyattn.attention.masks import causal, combined, padding
from tinyattn.attention.core import attend, merge_heads, split_heads
from tinyattn.attention.block import ABILITIES, AttentionBlock, KeyValueCache
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.bilinear import Bilinear, factor, merge
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.attention.segments import in_segments, joined, look_back, look_back_weights
from tinyattn.attention.bigbird import BigBird, hops, pattern
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.latent import Latent
from tinyattn.attention.influence import influence
from tinyattn.attention.penalties import Penalty, focus, head_statistics, near
from tinyattn.attention.registry import ATTENTION, options_of, parse_attention, spell_out

__all__ = [
    "ABILITIES", "ATTENTION", "AttentionBlock", "BigBird", "Bilinear", "KeyValueCache", "Latent",
    "Linformer", "LinformerCausal", "MultiHead", "Penalty", "RandomSynthesizer", "Synthesizer",
    "attend", "causal", "combined", "factor", "focus",
    "head_statistics", "hops", "in_segments", "influence", "joined",
    "look_back", "merge", "merge_heads", "near", "options_of", "padding", "parse_attention",
    "pattern", "spell_out", "split_heads", "look_back_weights",
]  # fmt: skip
