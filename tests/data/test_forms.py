"""Letters that look the same: mixed forms of Unicode give a note, and nothing is changed."""

from unicodedata import normalize

import pytest

from tinyattn.data import DataError, Vocabulary, form_of, look_alike, mixed_forms
from tinyattn.data.forms import form_known

COMPOSED, DECOMPOSED = (
    normalize("NFC", "Zürich, Łódź, 서울"),
    normalize("NFD", "Zürich, Łódź, 서울"),
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Zurich", ""), ("Ø ß 日本 हिन्दी", ""), ("q\u0303", ""),  # no other form, or no accent
        (COMPOSED, "NFC"), (DECOMPOSED, "NFD"), (COMPOSED + DECOMPOSED, "both"),
        ("é", "NFC"), ("e\u0301", "NFD"), ("서울", "NFC"), (normalize("NFD", "서울"), "NFD"),
        ("\u2126", ""), ("é \u2126", "NFC"),  # an ohm sign is not an accent
    ],
)  # fmt: skip
def test_the_form_of_a_text(text: str, form: str) -> None:
    assert form_of(text) == form


def test_only_texts_of_different_forms_give_a_note() -> None:
    assert mixed_forms({"a": COMPOSED, "b": COMPOSED, "c": "plain"}) == ""
    assert mixed_forms({"a": DECOMPOSED, "c": "plain"}) == mixed_forms({}) == ""
    message = mixed_forms({"a": COMPOSED, "b": "plain", "c": DECOMPOSED})
    assert "(a: NFC, c: NFD)" in message and "normalize('NFC', text)" in message
    assert "(a: both)" in mixed_forms({"a": COMPOSED + DECOMPOSED})


def test_characters_that_look_alike_but_differ() -> None:
    assert look_alike(COMPOSED, DECOMPOSED)
    assert not look_alike(COMPOSED, COMPOSED) and not look_alike("Zürich", "Zurich")


@pytest.mark.parametrize(("corpus", "text", "form"), [(COMPOSED, DECOMPOSED, "NFC"),
                                                      (DECOMPOSED, COMPOSED, "NFD")])  # fmt: skip
def test_an_unknown_character_that_is_known_in_another_form(
    corpus: str, text: str, form: str
) -> None:
    vocabulary = Vocabulary.from_text(corpus)
    with pytest.raises(DataError, match=f"convert the text to {form}, the vocabulary's Unicode"):
        vocabulary.encode(text)
    assert form_known(text, vocabulary.ids) == form and not form_known("日", vocabulary.ids)
    with pytest.raises(DataError, match=r"characters$"):
        vocabulary.encode("日")
