"""Chapter 7: the laws of attention, each with its domain, its check and the page that proves it."""

from types import ModuleType

from tinyattn.theory.law import Law
from tinyattn.theory.laws import (
    attention,
    basics,
    invariance,
    weights,
    changes,
    queries,
    noisy_keys,
    two_heads,
    two_heads_sampled,
    construction,
    scores,
    ranks,
)

SUBJECTS = (
    attention, basics, invariance, weights, changes, queries, noisy_keys, two_heads,
    two_heads_sampled, construction, scores, ranks,
)  # fmt: skip
"""In reading order."""


def _laws_of(*modules: ModuleType) -> dict[str, Law]:
    """The laws of some files by name. Raises: ValueError if two have one name."""
    laws: dict[str, Law] = {}
    for module in modules:
        for thing in vars(module).values():
            if isinstance(thing, Law) and thing.run.__module__ == module.__name__:
                if thing.name in laws:
                    raise ValueError(f"two laws are called {thing.name}")
                laws[thing.name] = thing
    return laws


LAWS: dict[str, Law] = _laws_of(*SUBJECTS)
"""Every law by its name."""
