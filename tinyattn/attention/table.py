"""Chapter 6: every kind of attention by the name that users write.

A model looks its attention up here, and tests, commands and tables walk this dictionary. What users
write is a name, and behind it what they want otherwise: `bigbird,block=16,random_blocks=1`. The
kinds enter in registry.py, which a reader of the GPT need not know.
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
"""Every attention block, of which each layer of a model has one."""
ARRANGEMENTS: dict[str, Any] = {}
"""Ways to put layers of multi-head attention together, other than one after the other."""
MECHANISMS: Mapping[str, Any] = ChainMap(ARRANGEMENTS, ATTENTION)
"""Both: what the `attention` of a GPT may name."""


def options_of(kind: type) -> dict[str, int]:
    """The arguments that a mechanism has of its own, with their defaults."""
    common = inspect.signature(AttentionBlock).parameters
    own = inspect.signature(kind).parameters
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


def possible_positions(attention: str, wanted: str) -> str:
    """The positions that are wanted, or learned ones if the attention cannot have rotary ones.

    Raises: ValueError if there is no such attention.
    """
    name, _ = parse_attention(attention, MECHANISMS)
    return "learned" if "rotary" in MECHANISMS[name].cannot else wanted


def longest_of(attention: str, context: int) -> int:
    """The longest sequence such a mechanism takes, in a model of so many positions.

    Raises: ValueError if it cannot be made with these options; a narrow one is tried.
    """
    name, options = parse_attention(attention, MECHANISMS)
    kind, rng = MECHANISMS[name], np.random.default_rng(0)
    if name in ARRANGEMENTS:
        kind(1, rng=rng, **options)
        return context
    return min(context, int(kind(2, 1, longest=context, rng=rng, **options).longest))
