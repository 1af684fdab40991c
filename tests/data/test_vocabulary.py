"""The vocabulary: the ids of A5, and no character is lost without an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import MASK_CHARACTER, PAD, PAD_CHARACTER, DataError, Vocabulary


def test_pad_and_mask_come_first_then_the_characters_in_order() -> None:
    vocabulary = Vocabulary.from_text("banana\nÄ")
    assert vocabulary.characters == ["\u25a1", "\u2047", "\n", "a", "b", "n", "Ä"]
    assert (PAD, vocabulary.mask) == (0, 1)


@given(st.text(st.characters(exclude_characters=PAD_CHARACTER + MASK_CHARACTER), min_size=1))
def test_decoding_undoes_encoding(text: str) -> None:
    vocabulary = Vocabulary.from_text(text)
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert ids.min() > vocabulary.mask  # text is never encoded as PAD or MASK
    assert len(vocabulary) == 2 + len(set(text))


@pytest.mark.parametrize("kept", [PAD_CHARACTER, MASK_CHARACTER])
def test_a_corpus_must_not_contain_pad_or_mask(kept: str) -> None:
    with pytest.raises(DataError, match=r"line 2 of the corpus contains .*, which is reserved"):
        Vocabulary.from_text(f"first\nsec{kept}nd")


def test_an_unknown_character_is_named_with_its_position() -> None:
    vocabulary = Vocabulary.from_text("Where was born?")
    with pytest.raises(DataError, match=r"'ß' \(U\+00DF\) at position 7, in 'Where ßas"):
        vocabulary.encode("Where ßas")
    assert vocabulary.decode(vocabulary.encode("Where ßas", unknown="drop")) == "Where as"


def test_no_text_is_no_ids_and_these_are_integers_too() -> None:
    ids = Vocabulary.from_text("abc").encode("")
    assert ids.shape == (0,) and ids.dtype == np.int64


@pytest.mark.parametrize("characters", ["abc", PAD_CHARACTER, "\u25a1\u2047aa"])
def test_a_damaged_list_of_characters_is_refused(characters: str) -> None:
    with pytest.raises(DataError, match="vocabulary"):
        Vocabulary(characters)
