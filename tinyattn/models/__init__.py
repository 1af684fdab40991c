"""Models, from chapter 3 on, and the text they write."""

from tinyattn.attention.table import ARRANGEMENTS, MECHANISMS, possible_positions
from tinyattn.models.layer import Layer
from tinyattn.models.config import GPTConfig
from tinyattn.models.gpt import GPT
from tinyattn.models.generate import continuations, generate, next_ids
from tinyattn.models.perceiver import Perceiver

ARRANGEMENTS["perceiver"] = Perceiver

__all__ = [
    "GPT", "MECHANISMS", "GPTConfig", "Layer", "Perceiver", "continuations", "generate", "next_ids",
    "possible_positions",
]  # fmt: skip
