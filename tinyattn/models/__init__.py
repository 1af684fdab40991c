"""Models, from chapter 3 on, and the generation of text."""

from tinyattn.attention.lookup import ARRANGEMENTS, ATTENTION_TYPES, possible_positions
from tinyattn.models.layer import Layer
from tinyattn.models.config import GPTConfig
from tinyattn.models.gpt import GPT
from tinyattn.models.generate import continuations, generate, next_ids
from tinyattn.models.perceiver import Perceiver

ARRANGEMENTS["perceiver"] = Perceiver

__all__ = [
    "ATTENTION_TYPES", "GPT", "GPTConfig", "Layer", "Perceiver", "continuations", "generate",
    "next_ids", "possible_positions",
]  # fmt: skip
