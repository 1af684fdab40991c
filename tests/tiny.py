"""A small GPT with every attention type, for tests of models."""

from typing import Any

import numpy as np
import pytest
from attention_cases import with_options

from tinyattn.models import ATTENTION_TYPES, GPT, GPTConfig

CONTEXT = 12
TINY: dict[str, Any] = {"vocabulary": 11, "context": CONTEXT, "layers": 2, "heads": 2, "width": 8}
SMALLER = {"bigbird": "bigbird,block=2,window_blocks=1,random_blocks=1"}
"""So that a sequence of a dozen tokens has several blocks, and some of them are hidden."""

CAUSAL = [name for name, made in ATTENTION_TYPES.items() if "causal" not in made.cannot]
TYPES = [(name, "learned") for name in CAUSAL] + [
    (name, "rotary") for name in CAUSAL if "rotary" not in ATTENTION_TYPES[name].cannot
]
every_type = pytest.mark.parametrize(("name", "positions"), TYPES)


def tiny(name: str = "multihead", positions: str = "learned", **options: Any) -> GPT:
    """A small GPT with weights so large that its outputs differ."""
    device = options.pop("device", "cpu")
    attention = (
        name
        if "," in name or name not in ATTENTION_TYPES
        else SMALLER.get(name, with_options(name))
    )
    given = {**TINY, "attention": attention, "positions": positions, **options}
    model = GPT(GPTConfig(**given), device=device)
    draw = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data = draw.standard_normal(parameter.shape) * 0.7
    return model


def ids_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(TINY["vocabulary"], size=shape)
