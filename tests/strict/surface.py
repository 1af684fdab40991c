"""The public names of CuPy, from surface.json, and the parameters of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SURFACE: dict[str, Any] = json.loads(Path(__file__).with_name("surface.json").read_text())

# Parameters with a Python value: a shape, an axis, a count, an option.  All other
# parameters take data, which has to be on the device already.
PYTHON_VALUES = frozenset(
    """
    M N axes axis axis1 axis2 axisa axisb axisc bitorder casting constant_values copy ddof
    decimals destination dims dimensions dtype dx edge_order end_values equal_nan indexing
    indices_or_sections k keepdims kind kth method minlength mode n ndim newshape num offset ord
    order pad_width reflect_type reps shape shift side source start stat_length step stop
    """.split()
)


@dataclass(frozen=True)
class Signature:
    """The parameters of one function, and the arguments that a call may pass."""

    text: str
    positional: tuple[str, ...]
    keywords: frozenset[str]
    rest: str | None = None  # "operands" in (*operands, dtype)
    any_keyword: bool = False

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature such as "(tup, axis, out, *, dtype)"."""
        names = [name.strip() for name in text.strip("()").split(",")]
        positional: list[str] = []
        keywords: set[str] = set()
        rest = None
        any_keyword = False
        keyword_only = False
        for name in names:
            if name.startswith("**"):
                any_keyword = True
            elif name.startswith("*"):
                keyword_only = True
                rest = name[1:] or None
            elif name == "/":
                keywords.clear()
            elif name:
                keywords.add(name)
                if not keyword_only:
                    positional.append(name)
        return cls(text, tuple(positional), frozenset(keywords), rest, any_keyword)

    def check(self, function: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Refuse arguments that CuPy's function does not have."""
        if len(args) > len(self.positional) and self.rest is None:
            raise TypeError(f"cupy's {function}{self.text} got {len(args)} positional arguments")
        if kwargs and not self.any_keyword and not self.keywords.issuperset(kwargs):
            unknown = sorted(set(kwargs) - self.keywords)
            raise TypeError(f"cupy's {function}{self.text} got unexpected {', '.join(unknown)}")

    def name_of(self, position: int) -> str | None:
        """The parameter that a positional argument is for."""
        return self.positional[position] if position < len(self.positional) else self.rest

    def argument(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """The argument of a call for the parameter `name`, or None."""
        if name in kwargs:
            return kwargs[name]
        if name in self.positional:
            position = self.positional.index(name)
            return args[position] if position < len(args) else None
        return None
