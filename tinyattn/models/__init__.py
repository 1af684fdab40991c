"""Chapter 6: models, and the text they write."""

from tinyattn.models.layer import Layer
from tinyattn.models.perceiver import Perceiver
from tinyattn.models.gpt import GPT, MECHANISMS, GPTConfig, possible_positions
from tinyattn.models.generate import continuations, generate, next_ids
from tinyattn.models.parser import Parser, ParserConfig
from tinyattn.models.mechanism import DownAndUp, new_block
from tinyattn.models.comparison import Comparison, compare

__all__ = [
    "GPT", "MECHANISMS", "Comparison", "DownAndUp", "GPTConfig", "Layer", "Parser",
    "ParserConfig", "Perceiver", "compare", "continuations", "generate", "new_block",
    "next_ids", "possible_positions",
]  # fmt: skip
