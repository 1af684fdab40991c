"""Wing, check: the laws of attention for anybody's attention.

`check_attention(f)` searches for arrays on which a function f(q, k, v) breaks a law of
tinyattn/theory/laws. The arrays may be of NumPy, PyTorch, JAX or CuPy. It needs Hypothesis, the
extra `check`.
"""

from tinyattn.check.strategies import masks, of_values, qkv, scores
from tinyattn.check.implementation import Implementation
from tinyattn.check import report
from tinyattn.check.search import Call, Checked, Counterexample, check_law
from tinyattn.check.conformance import Conformance, check_attention, parametrize_with_laws

__all__ = [
    "Call", "Checked", "Conformance", "Counterexample", "Implementation", "check_attention",
    "check_law", "masks", "of_values", "parametrize_with_laws", "qkv", "report", "scores",
]  # fmt: skip
