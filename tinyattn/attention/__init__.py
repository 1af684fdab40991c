"""Attention, from chapter 2 on. Similar attention types share a file, and all have one interface
(block.py)."""

from tinyattn.attention.masks import causal, padding
from tinyattn.attention.block import AttentionBlock, Call
from tinyattn.attention.multihead import MultiHead, combined, merge_heads, split_heads
from tinyattn.attention.cache import KeyValueCache

# The rest belongs to chapter 6.
from tinyattn.attention.core import attend
from tinyattn.attention.lookup import (
    ARRANGEMENTS,
    ATTENTION,
    ATTENTION_TYPES,
    options_of,
    parse_attention,
    possible_positions,
    spell_out,
)
from tinyattn.attention.refusals import ABILITIES
from tinyattn.attention.bilinear import Bilinear, factor, merge
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.attention.segments import in_segments, joined, segment_attention, segment_weights
from tinyattn.attention.bigbird import BigBird, hops, pattern
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.latent import Latent
from tinyattn.attention import attention_types
from tinyattn.attention.influence import influence
from tinyattn.attention.penalties import Penalty, focus, head_statistics, near

__all__ = [
    "ABILITIES", "ARRANGEMENTS", "ATTENTION", "ATTENTION_TYPES", "AttentionBlock", "BigBird",
    "Bilinear", "Call", "KeyValueCache", "Latent", "Linformer", "LinformerCausal", "MultiHead",
    "Penalty", "RandomSynthesizer", "Synthesizer", "attend", "attention_types", "causal",
    "combined", "factor", "focus", "head_statistics", "hops", "in_segments", "influence",
    "joined", "merge", "merge_heads", "near", "options_of", "padding", "parse_attention",
    "pattern", "possible_positions", "segment_attention", "segment_weights", "spell_out",
    "split_heads",
]  # fmt: skip
