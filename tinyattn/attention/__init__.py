"""Attention, which begins in chapter 2. Mechanisms that are alike share a file, and all keep one
contract (block.py)."""

from tinyattn.attention.masks import causal, padding
from tinyattn.attention.block import AttentionBlock, Call
from tinyattn.attention.multihead import MultiHead, combined, merge_heads, split_heads
from tinyattn.attention.cache import KeyValueCache

# What follows is read after the knowledge task.
from tinyattn.attention.core import attend
from tinyattn.attention.table import (
    ARRANGEMENTS,
    ATTENTION,
    MECHANISMS,
    options_of,
    parse_attention,
    possible_positions,
    spell_out,
)
from tinyattn.attention.refusals import ABILITIES
from tinyattn.attention.bilinear import Bilinear, factor, merge
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.attention.segments import in_segments, joined, look_back, look_back_weights
from tinyattn.attention.bigbird import BigBird, hops, pattern
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.latent import Latent
from tinyattn.attention import registry
from tinyattn.attention.influence import influence
from tinyattn.attention.penalties import Penalty, focus, head_statistics, near

__all__ = [
    "ABILITIES", "ARRANGEMENTS", "ATTENTION", "AttentionBlock", "BigBird", "Bilinear", "Call",
    "KeyValueCache", "Latent", "Linformer", "LinformerCausal", "MECHANISMS", "MultiHead", "Penalty",
    "RandomSynthesizer", "Synthesizer", "attend", "causal", "combined", "factor", "focus",
    "head_statistics", "hops", "in_segments", "influence", "joined", "look_back",
    "look_back_weights", "merge", "merge_heads", "near", "options_of", "padding",
    "parse_attention", "pattern", "possible_positions", "registry", "spell_out", "split_heads",
]  # fmt: skip
