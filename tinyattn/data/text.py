"""Chapter 7: reading text.

A model (chapter 6) eats ids; people have files. This file reads them with the same result on every
system: UTF-8 whatever the locale, a byte-order mark and Windows line ends taken away, and an error
that names the file and the place where something is wrong. Next: writing.
"""

from __future__ import annotations

from pathlib import Path


class DataError(Exception):
    """A file or text cannot be used; the message says which, where and why, in one line."""


def read_text(path: str | Path) -> str:
    """The text of a file, with LF line ends and no byte-order mark.

    Raises: DataError if it is missing, not readable, not UTF-8, or empty.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}: line {line} is not UTF-8 (byte {raw[error.start]:#04x} at {error.start}); "
            "save the file as UTF-8"
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    return text


def documents_of(text: str, *, blank_lines: bool = False) -> list[str]:
    """The documents of a corpus, one a line.

    In A5 even the empty piece behind the last newline is one, and counts (`blank_lines`).
    """
    lines = text.split("\n")
    return lines if blank_lines else [line for line in lines if line.strip()]


def read_pairs(path: str | Path) -> list[tuple[str, str | None]]:
    """Questions with their answers, or with None where the whole file has questions only.

    Each line is `question<TAB>answer`. Raises: DataError for a line without a tab in a file that
    has tabs elsewhere, for a second tab, or for an empty question or answer.
    """
    lines = read_text(path).split("\n")
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    if not any("\t" in line for _, line in numbered):
        return [(line, None) for _, line in numbered]
    pairs: list[tuple[str, str | None]] = []
    for number, line in numbered:
        fields = line.split("\t")
        if len(fields) != 2 or not all(field.strip() for field in fields):
            raise DataError(
                f"{path}: line {number} must be a question, one tab and an answer; got {line!r}"
            )
        pairs.append((fields[0], fields[1]))
    return pairs
