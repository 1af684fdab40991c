"""Chapter 5, the end: every attention block by the name that users write.

A model looks its block up here, and tests, commands and tables walk this dictionary. What users
write is a name, and behind it what they want otherwise: `bigbird,block=16,random_blocks=1`. Next:
models.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from tinyattn.attention.bigbird import BigBird
from tinyattn.attention.bilinear import Bilinear
from tinyattn.attention.block import AttentionBlock
from tinyattn.attention.latent import Latent
from tinyattn.attention.linformer import Linformer, LinformerCausal
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.synthesizer import RandomSynthesizer, Synthesizer
from tinyattn.limits import MOST, MOST_POSITIONS, brief
from tinyattn.names import nearest

ATTENTION: dict[str, type[AttentionBlock]] = {
    "multihead": MultiHead,
    "bilinear": Bilinear,
    "synthesizer": Synthesizer,
    "random-synthesizer": RandomSynthesizer,
    "bigbird": BigBird,
    "linformer": Linformer,
    "linformer-causal": LinformerCausal,
    "latent": Latent,
}


def options_of(kind: type) -> dict[str, int]:
    """The arguments that a mechanism has of its own, with their defaults."""
    common = inspect.signature(AttentionBlock.__init__).parameters
    own = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    return {
        name: p.default
        for name, p in own.items()
        if name not in common and p.kind is p.KEYWORD_ONLY
    }


def parse_attention(text: str, known: Mapping[str, type]) -> tuple[str, dict[str, int]]:
    """`NAME,OPTION=NUMBER,..` as a name in `known` and the options given.

    Raises: ValueError that says which names, or which options, there are.
    """
    name, *settings = [part.strip() for part in text.split(",")]
    if name not in known:
        raise ValueError(
            f"attention must be one of {', '.join(known)}; got {name!r}"
            f"{nearest(name, known, otherwise=False)}"
        )
    defaults = options_of(known[name])
    options = {}
    for setting in settings:
        key, _, value = (word.strip() for word in setting.partition("="))
        if key not in defaults:
            there = ", ".join(f"{k}={v}" for k, v in defaults.items()) or "none"
            raise ValueError(
                f"attention {name!r} has no option {key!r}; it has {there}"
                f"{nearest(key, defaults, otherwise=False)}"
            )
        if not value.isdecimal():
            raise ValueError(
                f"attention option {key} needs a whole number of at least 0, such as "
                f"{key}={defaults[key]}; got {setting!r}"
            )
        most = MOST if key == "seed" else MOST_POSITIONS
        if len(value) > len(str(most)) or int(value) > most:
            raise ValueError(f"attention option {key} must be at most {most}; got {brief(value)}")
        options[key] = int(value)
    return name, options


def spell_out(text: str, known: Mapping[str, type]) -> str:
    """The same with every option, in the order of the block's arguments.

    Raises: as `parse_attention`.
    """
    name, options = parse_attention(text, known)
    return ",".join([name, *(f"{k}={v}" for k, v in (options_of(known[name]) | options).items())])
