"""Chapter 5: attention. One mechanism a file, all with one contract (block.py)."""

from tinyattn.attention.masks import both, causal, padding
from tinyattn.attention.core import attend, merge_heads, split_heads
from tinyattn.attention.block import ABILITIES, AttentionBlock, KeyValueCache
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.bilinear import Bilinear, factor, merge
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.attention.segments import in_segments, joined, look_back, looked_back
from tinyattn.attention.bigbird import BigBird, hops, pattern
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.latent import Latent
from tinyattn.attention.cost import evaluate, letters
from tinyattn.attention.influence import influence
from tinyattn.attention.dependency import dependency_block, dependency_scores, read_arcs
from tinyattn.attention.penalties import Penalty, focus, measured, near
from tinyattn.attention.registry import ATTENTION, options_of, parse

__all__ = [
    "ABILITIES", "ATTENTION", "AttentionBlock", "BigBird", "Bilinear", "KeyValueCache", "Latent",
    "Linformer", "LinformerCausal", "MultiHead", "Penalty", "RandomSynthesizer", "Synthesizer",
    "attend", "both", "causal", "dependency_block", "dependency_scores", "evaluate", "factor",
    "focus", "hops", "in_segments", "influence", "joined", "letters", "look_back", "looked_back",
    "measured", "merge", "merge_heads", "near", "options_of", "padding", "parse", "pattern",
    "read_arcs", "split_heads",
]  # fmt: skip
