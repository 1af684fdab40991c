"""Chapter 6: every attention type by the name that users write.

Models, tests, commands and tables find the attention types in the dictionaries below. Users write a
name, and after it the options that shall differ from their defaults:
`bigbird,block=16,random_blocks=1`. attention_types.py fills the first dictionary; a reader of the
GPT need not know that file.
"""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyattn.attention.block import AttentionBlock
from tinyattn.limits import MOST, MOST_POSITIONS, brief
from tinyattn.names import nearest

ATTENTION: dict[str, type[AttentionBlock]] = {}
"""The attention block classes by name. Each layer of a model has one attention block."""
ARRANGEMENTS: dict[str, Any] = {}
"""Classes that connect layers of multi-head attention in another way than one after the other."""
ATTENTION_TYPES: Mapping[str, Any] = ChainMap(ARRANGEMENTS, ATTENTION)
"""Both: the names that the setting `attention` of a GPT may have."""


def options_of(block_class: type) -> dict[str, int]:
    """The options of an attention type with their defaults, without those that all types have."""
    common = inspect.signature(AttentionBlock).parameters
    own = inspect.signature(block_class).parameters
    return {
        name: p.default
        for name, p in own.items()
        if name not in common and p.kind is p.KEYWORD_ONLY
    }


def own_class(attention: str) -> tuple[str, str]:
    """MODULE and CLASS, if the attention is a user's own class; else two empty strings."""
    module, colon, name = attention.partition(",")[0].strip().rpartition(":")
    return (module, name) if colon else ("", "")


def parse_attention(text: str, known: Mapping[str, type]) -> tuple[str, dict[str, int]]:
    """Split `NAME,OPTION=NUMBER,..` into a name in `known` and the options given.

    Raises: ValueError with the names, or the options, that exist.
    """
    name, *settings = [part.strip() for part in text.split(",")]
    module, class_name = own_class(name)
    if name not in known and class_name:
        raise ValueError(
            f"attention {name!r} is not imported: start with `tinyattn --import {module}`, or in "
            f"Python set ATTENTION[{name!r}] = {class_name}"
        )
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
    """The same text with every option, in the order of the block's arguments.

    Raises: as `parse_attention`.
    """
    name, options = parse_attention(text, known)
    return ",".join([name, *(f"{k}={v}" for k, v in (options_of(known[name]) | options).items())])


def possible_positions(attention: str, wanted: str) -> str:
    """`wanted`, or "learned" if this attention type cannot use rotary positions.

    Raises: ValueError if the attention type does not exist.
    """
    name, _ = parse_attention(attention, ATTENTION_TYPES)
    return "learned" if "rotary" in ATTENTION_TYPES[name].cannot else wanted


def max_length_of(attention: str, context: int) -> int:
    """The maximum sequence length of an attention type in a model with this context length.

    Raises: ValueError if a block cannot be made with these options: a narrow one is made as a test.
    """
    name, options = parse_attention(attention, ATTENTION_TYPES)
    block_class, rng = ATTENTION_TYPES[name], np.random.default_rng(0)
    if name in ARRANGEMENTS:
        block_class(1, rng=rng, **options)
        return context
    return min(context, int(block_class(2, 1, max_length=context, rng=rng, **options).max_length))
