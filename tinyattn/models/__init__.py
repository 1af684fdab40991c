"""Chapter 6: models, and the text they write."""

from tinyattn.models.gpt import GPT, GPTConfig
from tinyattn.models.generate import generate, next_ids

__all__ = ["GPT", "GPTConfig", "generate", "next_ids"]
