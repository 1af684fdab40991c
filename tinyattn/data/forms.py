"""Chapter 5: Unicode forms of letters, NFC and NFD.

Unicode writes é as one character (composed, the form NFC) or as an e and an accent (decomposed,
NFD). Both look the same, but for a model, and for a score that counts exact matches, they are
different texts. Nothing here changes a text: these functions find out which texts mix the forms.
Next: reading text (data/text.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal
from unicodedata import normalize

FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
ADVICE = (
    "a model and a score treat these as different letters: convert all files to one form, for "
    "example with unicodedata.normalize('NFC', text) in Python"
)


def form_of(text: str) -> str:
    """The form of the accents in a text: "NFC", "NFD", "both", or "" if there are no accents.

    >>> form_of("caf\u00e9"), form_of("cafe\u0301"), form_of("cafe")
    ('NFC', 'NFD', '')
    """
    if text.isascii():
        return ""
    composed = len(normalize("NFD", text)) > len(text)
    decomposed = len(normalize("NFC", text)) < len(text)
    return "both" if composed and decomposed else "NFC" * composed + "NFD" * decomposed


def mixed_forms(texts: Mapping[str, str]) -> str:
    """A warning if the accents in these texts, by name, are not all in one form; else empty."""
    forms = {name: form for name, text in texts.items() if (form := form_of(text))}
    if "both" not in forms.values() and len({*forms.values()}) < 2:
        return ""
    which = ", ".join(f"{name}: {form}" for name, form in forms.items())
    return f"accents are written in two forms of Unicode ({which}); {ADVICE}"


def look_alike(a: str, b: str) -> bool:
    """Whether two texts differ only in the form of their accents."""
    return a != b and normalize("NFC", a) == normalize("NFC", b)


def form_known(text: str, known: Container[str]) -> str:
    """The form in which `known` contains all characters of `text`; empty if there is none."""
    fits = (form for form in FORMS if all(c in known for c in normalize(form, text)))
    return next(fits, "")
