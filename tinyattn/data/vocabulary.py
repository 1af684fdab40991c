"""Chapter 5: characters and their ids.

A token is one character here. The vocabulary is PAD, MASK and the sorted characters of one
corpus, which must not contain PAD or MASK. PAD fills batches up. MASK replaces a span that was cut
out, and marks where an answer begins and ends. Next: questions and answers (data/questions.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tinyattn.data.forms import form_known
from tinyattn.data.text import DataError

PAD_CHARACTER = "\u25a1"  # a white square; its id is 0, as in CS224N assignment 5
MASK_CHARACTER = "\u2047"  # a double question mark; its id is 1


class UnknownCharacter(DataError):
    """A text has a character that is not in the vocabulary.

    Args: remedy: what the user can do, if there is something.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.remedy = remedy


class Vocabulary:
    """A one-to-one map between characters and ids.

    Args: characters: in the order of their ids, PAD and MASK first.
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = list(characters)
        if self.characters[:2] != [PAD_CHARACTER, MASK_CHARACTER]:
            raise DataError("vocabulary: the first two characters must be PAD and MASK")
        self.ids = {character: i for i, character in enumerate(self.characters)}
        if len(self.ids) != len(self.characters):
            raise DataError("vocabulary: a character occurs twice")

    @classmethod
    def from_text(cls, text: str) -> Vocabulary:
        """PAD, MASK, then the distinct characters of `text`, sorted.

        Raises: DataError if the text contains PAD or MASK itself.
        """
        for name, character in (("PAD", PAD_CHARACTER), ("MASK", MASK_CHARACTER)):
            if character in text:
                line = text[: text.index(character)].count("\n") + 1
                raise DataError(
                    f"line {line} of the corpus contains {character!r}, which is reserved for "
                    f"{name}; replace it by another character"
                )
        return cls([PAD_CHARACTER, MASK_CHARACTER, *sorted(set(text))])

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def mask(self) -> int:
        """The id of MASK."""
        return self.ids[MASK_CHARACTER]

    def encode(self, text: str, *, unknown: str = "error") -> np.ndarray:
        """The ids of `text`, (len,).

        Args: unknown: "error", or "drop" to leave out characters that are not in the vocabulary.
        Raises: UnknownCharacter with the first of them and its position (from 1).
        """
        if unknown == "drop":
            text = self.known(text)
        try:
            return np.array([self.ids[character] for character in text], np.int64)
        except KeyError as error:
            character = error.args[0]
            position = text.index(character) + 1
            start = max(0, position - 20)
            form = form_known(text, self.ids)
            raise UnknownCharacter(
                f"character {character!r} (U+{ord(character):04X}) at position {position}, in "
                f"{text[start : start + 40]!r}, is not in the vocabulary of {len(self)} characters",
                f"convert the text to {form}, the vocabulary's Unicode form" if form else "",
            ) from None

    def known(self, text: str) -> str:
        """`text` without the characters that are not in the vocabulary."""
        return "".join(character for character in text if character in self.ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        return "".join(self.characters[int(i)] for i in ids)
