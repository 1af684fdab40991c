"""Chapter 5: reading text.

A model needs ids, and users have files. The functions here read a file with the same result on
every system. They decode UTF-8 whatever the locale, and remove byte-order marks and Windows line
ends. An error names the file and the place of the mistake. Next: characters and their ids
(data/vocabulary.py).
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path


class DataError(Exception):
    """A file or text cannot be used. The message names it, the place and the reason in one line."""


UTF16 = b"\xff\xfe", b"\xfe\xff"
"""The byte-order marks with which a file in UTF-16 may begin."""
MARK = "\ufeff"
"""The byte-order mark. Some programs write it at the beginning of a file, so that joined files have
it inside."""
MARKED = re.compile(rf"(^|\t){MARK}+", re.MULTILINE)
"""Byte-order marks at the beginning of a line, or of a field in a table."""
SPACED = re.compile(r"\S {2,}\S|\? +\S")
"""Two or more spaces between words, or spaces after a question mark: perhaps in place of a tab."""
COMMA = re.compile(r"""[?？]["']? *[,;]""")
"""A comma or semicolon after a question mark: perhaps a file of comma-separated values (CSV)."""


def read_text(path: str | Path) -> str:
    """The text of a file, with LF line ends and no byte-order mark.

    Raises: DataError if the file is missing, not readable, not UTF-8 or empty, or if it contains a
        NUL, as UTF-16 does, or a byte-order mark inside a line.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file or directory{similar_file(Path(path))}") from error
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
        ("\0", f"contains a NUL (U+0000){wide}; save the file as UTF-8"),
        (MARK, "contains a byte-order mark (U+FEFF) inside the line, perhaps from joining two "
               "files without a line end between them; start a new line there, or delete the mark"),
    ):  # fmt: skip
        if character in text:
            line = text[: text.index(character)].count("\n") + 1
            raise DataError(f"{path}: line {line} {what}")
    if not text.strip():
        raise DataError(f"{path}: the file is empty")
    return text


def similar_file(path: Path) -> str:
    """The end of a message: the most similar name of a file in the folder; empty if none is."""
    try:
        names = [file.name for file in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_wide(raw: bytes) -> bool:
    """Whether at least a quarter of these bytes are NULs, as in UTF-16 and UTF-32."""
    return 4 * raw.count(0) >= len(raw) > 0


def documents_of(text: str, *, blank_lines: bool = False) -> list[str]:
    """The documents of a corpus, one per line.

    Empty lines are left out, except with `blank_lines`: A5 (assignment 5 of Stanford CS224N) keeps
    them, and also the empty string after the last newline.
    """
    lines = text.split("\n")
    return lines if blank_lines else [line for line in lines if line.strip()]


def read_answered(path: str | Path, why: str = "") -> list[tuple[str, str]]:
    """The pairs of question and answer in a file.

    Raises: DataError if there is none. Its message ends with `why`: for what pairs are needed.
    """
    known = [(question, answer) for question, answer in read_pairs(path) if answer is not None]
    if not known:
        raise DataError(f"{path}: no line has a tab and an answer{why}")
    return known


def read_pairs(path: str | Path) -> list[tuple[str, str | None]]:
    """Questions with their answers, or each with None if the file has questions only.

    Each line is `question<TAB>answer`. Space at the end of a line is not part of the answer: A5's
    scorer removes it before it compares. All other space counts, as it does there.

    Raises: DataError for a line without a tab in a file that has tabs elsewhere, for a second tab,
        for an empty question or answer, or for a table with spaces or commas in place of its tabs.
    """
    lines = read_text(path).split("\n")
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    if not any("\t" in line for _, line in numbered):
        for pattern, found, otherwise in (
            (COMMA, "a comma or semicolon", "write nothing after the question mark"),
            (SPACED, "spaces", "write single spaces between words"),
        ):
            alike = [(i, line) for i, line in numbered if pattern.search(line)]
            if 2 * len(alike) > len(numbered):
                number, line = alike[0]
                raise DataError(
                    f"{path}: line {number} has {found} where a tab should be, between question "
                    f"and answer: {line!r}; write a tab there, or, if the file has questions only, "
                    f"{otherwise}"
                )
        return [(line, None) for _, line in numbered]
    pairs: list[tuple[str, str | None]] = []
    for number, line in numbered:
        fields = line.split("\t")
        if len(fields) != 2 or not all(field.strip() for field in fields):
            alone = len(fields) == 1 and " " in line.strip()
            found = "is a comma or semicolon" if COMMA.search(line) else "are spaces"
            spaces = f"; there {found} where the tab should be" * alone
            raise DataError(
                f"{path}: line {number} must be a question, one tab and an answer; got {line!r}"
                f"{spaces}"
            )
        pairs.append((fields[0], fields[1].rstrip()))
    return pairs
