"""Wing, parsing: sentences with their dependency trees, from CoNLL-U files.

In a dependency tree every word has a head, the word on which it depends, by a relation such as
`obj`; the head of one word is the root. The code calls the head of a word its *governor*, because
the parser also has attention heads. Treebanks keep such trees in CoNLL-U: one word a line, ten
columns with tabs between them, a blank line after each sentence. This file reads the basic tree
and raises an error for heads that form no tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tinyattn.data.text import DataError, read_text

COLUMNS = 10
FORM, TAG, GOVERNOR, RELATION = 1, 3, 6, 7
"""The columns that are used, counted from 0; their names in the format are FORM, UPOS, HEAD and
DEPREL."""
NEW_DOCUMENT = re.compile(r"#\s*newdoc(\s|=|$)")
"""A comment that begins a document, such as `# newdoc id = x`, also without its spaces."""
SPACES = "; there are spaces where tabs should be"
SKIPPED = re.compile(r"[0-9]+(-|\.)[0-9]+")
"""Ids of multiword tokens (3-4) and of empty nodes (8.1), which the basic tree does not have."""


@dataclass(frozen=True)
class Sentence:
    """Words and their tree. Word number i, from 1, is at index i - 1.

    Shapes: all four (n,); a governor, the head of a word, is 1..n, or 0 for the root.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)


def read_conllu(path: str | Path) -> list[list[Sentence]]:
    """The sentences of every document; where none is marked, each sentence is a document.

    Raises: DataError with the line of the error: wrong columns or ids, a head that does not exist,
        or heads that form no tree.
    """
    documents: list[list[Sentence]] = [[]]
    rows: list[tuple[int, list[str]]] = []  # line number and columns of each word so far
    marked = False
    for number, line in enumerate([*read_text(path).split("\n"), ""], start=1):
        if NEW_DOCUMENT.match(line):
            if rows:
                raise _damage(path, number, "a document begins in the middle of a sentence")
            marked = True
            documents.append([])
        elif not line.strip(" "):
            if rows:
                documents[-1].append(_sentence(path, rows))
                rows = []
        elif not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != COLUMNS:
                spaces = SPACES * (len(columns) == 1 and len(line.split()) == COLUMNS)
                raise _damage(path, number, f"needs {COLUMNS} columns with tabs between them; got "
                                            f"{len(columns)}{spaces}")  # fmt: skip
            if SKIPPED.fullmatch(columns[0]):
                continue
            if columns[0] != str(len(rows) + 1):
                raise _damage(path, number, f"must be word {len(rows) + 1} of its sentence; got id "
                                            f"{columns[0]!r}")  # fmt: skip
            rows.append((number, columns))
    if not any(documents):
        raise DataError(f"{path}: there is no sentence in it")
    if not marked:
        return [[sentence] for sentence in documents[0]]
    return [document for document in documents if document]


def _sentence(path: str | Path, rows: list[tuple[int, list[str]]]) -> Sentence:
    """The sentence in these lines."""
    known = {str(i): i for i in range(len(rows) + 1)}
    governors = [_governor(path, number, columns, known) for number, columns in rows]
    roots = [number for (number, _), g in zip(rows, governors, strict=True) if g == 0]
    if len(roots) > 1:
        raise _damage(path, roots[1], f"a second word with head 0; the first is line {roots[0]}")
    if not roots:
        raise _damage(path, rows[0][0], "no word of this sentence has head 0, the root")
    if lost := _astray(governors):
        raise _damage(path, rows[lost - 1][0], f"from word {lost}, the heads form a cycle and do "
                                               "not lead to the root")  # fmt: skip
    words, tags, relations = (
        tuple(columns[column] for _, columns in rows) for column in (FORM, TAG, RELATION)
    )
    return Sentence(words, tags, tuple(governors), relations)


def _governor(path: str | Path, number: int, columns: list[str], known: dict[str, int]) -> int:
    """The governor in a line. Raises: DataError if it or another used column is missing."""
    for column, name in ((FORM, "word"), (TAG, "tag"), (RELATION, "relation")):
        empty = ("",) if column == FORM else ("", "_")  # the word may be an underscore
        if columns[column].strip() in empty:
            raise _damage(path, number, f"column {column + 1}, the {name}, is empty")
    if columns[GOVERNOR] not in known:
        raise _damage(path, number, f"the head must be a word, 1..{len(known) - 1}, or 0 for "
                                    f"the root; got {columns[GOVERNOR]!r}")  # fmt: skip
    return known[columns[GOVERNOR]]


def _astray(governors: list[int]) -> int:
    """The first word from which the heads do not lead to the root; 0 if there is none."""
    arrives = {0}
    for word in range(1, len(governors) + 1):
        way = [word]
        while way[-1] not in arrives:
            way.append(governors[way[-1] - 1])
            if len(way) > len(governors) + 1:
                return word
        arrives.update(way)
    return 0


def _damage(path: str | Path, number: int, what: str) -> DataError:
    return DataError(f"{path}: line {number}: {what}")
