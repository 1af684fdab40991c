"""Chapter 5: letters that look the same.

Unicode writes é as one character (composed, the form NFC) or as an e and an accent (decomposed,
NFD). Both look the same, but to a model they are as different as any two texts, and so they are to
whoever counts exact matches. Nothing here changes a text; what follows tells who mixes the forms.
Next: reading text (data/text.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal
from unicodedata import normalize

FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
ADVICE = (
    "to a model, and to a score, these are different letters: write all files in one form, as "
    "unicodedata.normalize('NFC', text) does in Python"
)


def form_of(text: str) -> str:
    """Which form the accents in a text have: "NFC", "NFD", "both", or "" if there are none.

    >>> form_of("caf\u00e9"), form_of("cafe\u0301"), form_of("cafe")
    ('NFC', 'NFD', '')
    """
    if text.isascii():
        return ""
    composed = len(normalize("NFD", text)) > len(text)
    decomposed = len(normalize("NFC", text)) < len(text)
    return "both" if composed and decomposed else "NFC" * composed + "NFD" * decomposed


def mixed_forms(texts: Mapping[str, str]) -> str:
    """A remark if these texts, by name, do not have their accents in one form; else empty."""
    forms = {name: form for name, text in texts.items() if (form := form_of(text))}
    if "both" not in forms.values() and len({*forms.values()}) < 2:
        return ""
    which = ", ".join(f"{name}: {form}" for name, form in forms.items())
    return f"accents are written in two forms of Unicode ({which}); {ADVICE}"


def look_alike(a: str, b: str) -> bool:
    """Whether two texts differ, but only in the form of their accents."""
    return a != b and normalize("NFC", a) == normalize("NFC", b)


def form_known(text: str, known: Container[str]) -> str:
    """The form of Unicode in which all characters of `text` are known; empty if there is none."""
    fits = (form for form in FORMS if all(c in known for c in normalize(form, text)))
    return next(fits, "")
