"""Wing, check: the laws of attention for anybody's attention.

`check_attention(f)` searches for arrays on which a function f(q, k, v) breaks a law of
tinyattn/theory/laws. The arrays may be of NumPy, PyTorch, JAX or CuPy. It needs Hypothesis, the
extra `check`; so names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinyattn.check.conformance import Conformance, check_attention, parametrize_with_laws
    from tinyattn.check.implementation import Implementation
    from tinyattn.check.search import Checked, Counterexample, check_law
    from tinyattn.check.strategies import masks, of_values, qkv, scores

HOMES = {
    "conformance": ("Conformance", "check_attention", "parametrize_with_laws"),
    "implementation": ("Implementation",),
    "search": ("Checked", "Counterexample", "check_law"),
    "strategies": ("masks", "of_values", "qkv", "scores"),
}

__all__ = [
    "Checked", "Conformance", "Counterexample", "Implementation", "check_attention", "check_law",
    "masks", "of_values", "parametrize_with_laws", "qkv", "scores",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name. Raises: AttributeError for another one."""
    for file, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"tinyattn.check.{file}"), name)
    raise AttributeError(f"module 'tinyattn.check' has no attribute {name!r}")
