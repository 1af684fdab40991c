"""Chapter 6: models, and the text they write."""

from tinyattn.models.layer import Layer
from tinyattn.models.perceiver import Perceiver
from tinyattn.models.gpt import GPT, MECHANISMS, GPTConfig, possible_positions
from tinyattn.models.generate import continuations, generate, next_ids

__all__ = [
    "GPT", "MECHANISMS", "GPTConfig", "Layer", "Perceiver", "continuations", "generate", "next_ids",
    "possible_positions",
]  # fmt: skip
