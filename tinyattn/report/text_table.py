"""Wing, report: plain text tables.

A command computes rows of named values. With --json they are printed as they are; otherwise as a
table, whose columns define how a value is formatted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column of a table.

    Args:
        heading: the heading of the column.
        cell: a format string for the values of a row, such as "{correct} of {total}", or a function
            of the row.
        align: "<" (left) or ">" (right), then optionally the smallest width, such as ">16".
    """

    heading: str
    cell: str | Callable[[Row], str]
    align: str = "<"

    def text(self, row: Row) -> str:
        """The text of this column in a row."""
        return self.cell(row) if callable(self.cell) else self.cell.format_map(row)


def table(rows: Iterable[Row], columns: Sequence[Column], gap: str = "  ") -> list[str]:
    """The lines of a table; the first line has the headings, if there are any.

    >>> rows = [{"name": "plain", "loss": 2.5}, {"name": "pretrained", "loss": 0.25}]
    >>> print(*table(rows, [Column("", "{name}"), Column("loss", "{loss:.2f}", ">")]), sep="\\n")
                loss
    plain       2.50
    pretrained  0.25
    """
    head = [column.heading for column in columns]
    cells = [[column.text(row) for column in columns] for row in rows]
    return aligned([head] * any(head) + cells, [column.align for column in columns], gap)


def aligned(lines: Sequence[Sequence[str]], aligns: Sequence[str], gap: str = "") -> list[str]:
    """Lines of cells, aligned in columns; `aligns` as in Column."""
    wide = [max([int(align[1:] or 0), *map(len, cells)])
            for align, cells in zip(aligns, zip(*lines, strict=True), strict=True)]  # fmt: skip
    styles = [f"{align[0]}{width}" for align, width in zip(aligns, wide, strict=True)]
    return [gap.join(map(format, cells, styles)).rstrip() for cells in lines]
