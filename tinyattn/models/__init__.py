"""Chapter 6: models, and the text they write."""

from tinyattn.models.layer import Layer
from tinyattn.models.perceiver import Perceiver
from tinyattn.models.gpt import GPT, MECHANISMS, GPTConfig
from tinyattn.models.generate import generate, next_ids

__all__ = ["GPT", "MECHANISMS", "GPTConfig", "Layer", "Perceiver", "generate", "next_ids"]
