"""Chapter 5: reading text.

A model eats ids; people have files. This file reads them with the same result on every system:
UTF-8 whatever the locale, a byte-order mark and Windows line ends taken away, and an error that
names the file and the place where something is wrong. Next: characters and their numbers
(data/vocabulary.py).
"""

from __future__ import annotations

import re
from pathlib import Path


class DataError(Exception):
    """A file or text cannot be used; the message says which, where and why, in one line."""


UTF16 = b"\xff\xfe", b"\xfe\xff"
"""How files in UTF-16 begin, if they say so."""
MARK = "\ufeff"
"""The byte-order mark, which some programs write at the beginning of a file, and joined files have
inside."""
MARKED = re.compile(rf"(^|\t){MARK}+", re.MULTILINE)
"""Marks at the beginning of a line, or of a field in a table."""
SPACED = re.compile(r"\S {2,}\S|\? +\S")
"""Spaces wider than between words, or behind a question: in place of a tab, in most lines."""


def read_text(path: str | Path) -> str:
    """The text of a file, with LF line ends and no byte-order mark.

    Raises: DataError if it is missing, not readable, not UTF-8, or empty; if it holds a NUL, as
        UTF-16 does; or a byte-order mark amid a line.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    wide = "; it looks like UTF-16" if raw[:2] in UTF16 or _is_wide(raw) else ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}: line {line} is not UTF-8 (byte {raw[error.start]:#04x} at {error.start})"
            f"{wide}; save the file as UTF-8"
        ) from error
    text = MARKED.sub(r"\1", text.replace("\r\n", "\n").replace("\r", "\n"))
    for character, what in (
        ("\0", f"holds a NUL (U+0000){wide}; save the file as UTF-8"),
        (MARK, "holds a byte-order mark (U+FEFF) amid its text, as where a file was joined to one "
               "without a line end; begin a new line there, or take the mark out"),
    ):  # fmt: skip
        if character in text:
            line = text[: text.index(character)].count("\n") + 1
            raise DataError(f"{path}: line {line} {what}")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    return text


def _is_wide(raw: bytes) -> bool:
    """Whether at least a quarter of these bytes are NULs, as where two or four make a letter."""
    return 4 * raw.count(0) >= len(raw) > 0


def documents_of(text: str, *, blank_lines: bool = False) -> list[str]:
    """The documents of a corpus, one a line.

    In A5 even the empty piece behind the last newline is one, and counts (`blank_lines`).
    """
    lines = text.split("\n")
    return lines if blank_lines else [line for line in lines if line.strip()]


def read_answered(path: str | Path, why: str = "") -> list[tuple[str, str]]:
    """The pairs in a file that have an answer.

    Raises: DataError if there is none; it ends with `why` one is needed.
    """
    known = [(question, answer) for question, answer in read_pairs(path) if answer is not None]
    if not known:
        raise DataError(f"{path}: no line has a tab and an answer{why}")
    return known


def read_pairs(path: str | Path) -> list[tuple[str, str | None]]:
    """Questions with their answers, or with None where the whole file has questions only.

    Each line is `question<TAB>answer`. Space at the end of a line is no part of the answer: A5's
    scorer leaves it out before it compares. All other space counts, as it does there.

    Raises: DataError for a line without a tab in a file that has tabs elsewhere, for a second tab,
        or for an empty question or answer; for a table with spaces in place of its tabs.
    """
    lines = read_text(path).split("\n")
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    if not any("\t" in line for _, line in numbered):
        spaced = [(i, line) for i, line in numbered if SPACED.search(line)]
        if 2 * len(spaced) > len(numbered):
            number, line = spaced[0]
            raise DataError(
                f"{path}: line {number} has spaces where a tab should be, between question and "
                f"answer: {line!r}; or, if there are questions only, write one space between words"
            )
        return [(line, None) for _, line in numbered]
    pairs: list[tuple[str, str | None]] = []
    for number, line in numbered:
        fields = line.split("\t")
        if len(fields) != 2 or not all(field.strip() for field in fields):
            alone = len(fields) == 1 and " " in line.strip()
            spaces = "; there are spaces where the tab should be" * alone
            raise DataError(
                f"{path}: line {number} must be a question, one tab and an answer; got {line!r}"
                f"{spaces}"
            )
        pairs.append((fields[0], fields[1].rstrip()))
    return pairs
