"""Chapter 7: what an attention supports, and what it does where libraries differ.

The laws are true for every correct attention, but no library supports everything, and some
questions have several right answers. Which keys does the first of two queries see if there are five
keys? What does a query get that may attend to no key? An attention declares its answers.
"""

from __future__ import annotations

from dataclasses import dataclass

FEATURES = frozenset({
    "batch", "causal", "dropout", "empty", "exact", "float64", "grad", "mask", "nan",
    "rectangular", "scale", "strides",
})  # fmt: skip
"""What an attention may support:

batch: axes before length and width. causal: a causal mask. dropout: of the weights. empty: axes of
length 0. exact: it is softmax attention, no approximation. float64: results as exact as float64.
grad: gradients. mask: an attention mask. nan: ∞ and NaN that are masked have no effect.
rectangular: other numbers of queries and keys. scale: a given factor of the scores. strides: arrays
that are not contiguous.
"""

KEYWORDS = frozenset({"causal", "dropout", "mask", "scale"})
"""The features that are keywords of the function."""

EXPECTED = FEATURES - {"dropout", "grad"}
"""What an attention is expected to support if it declares nothing."""

LIBRARIES = ("numpy", "torch", "jax", "cupy")
"""The libraries of its arrays."""

MASKS = ("allowed", "masked", "additive")
"""What a mask means: True = may attend, True = may not, or 0 and -∞, which are added."""

NO_KEY = ("zeros", "mean", "nan")
"""The output of a query that may attend to no key: 0, the mean of all values, or NaN."""

CAUSAL_FROM = ("end", "start")
"""If there are more keys than queries: the causal mask ends at the last key, so that the last query
attends to all keys; or it starts at the first key, to which alone the first query attends."""


class Unsupported(Exception):
    """A law needs a feature that the attention does not support."""


@dataclass(frozen=True)
class Conventions:
    """What one attention declares about itself.

    Args:
        supports: some of FEATURES.
        no_key: one of NO_KEY.
        causal_from: one of CAUSAL_FROM.
    Raises: ValueError for a name that does not exist.
    """

    supports: frozenset[str] = FEATURES
    no_key: str = "zeros"
    causal_from: str = "end"

    def __post_init__(self) -> None:
        for name, given, known in (
            ("supports", sorted(self.supports), sorted(FEATURES)),
            ("no_key", [self.no_key], NO_KEY),
            ("causal_from", [self.causal_from], CAUSAL_FROM),
        ):
            if unknown := [one for one in given if one not in known]:
                raise ValueError(f"{name} must be of {', '.join(known)}; got {', '.join(unknown)}")

    def needs(self, *features: str) -> None:
        """Raises: Unsupported if one of these features is missing."""
        if missing := [feature for feature in features if feature not in self.supports]:
            raise Unsupported(", ".join(missing))


OURS = Conventions()
"""Those of `ops.attention`."""
