"""Wing, exercise: the grade of a function, as text and JSON."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from tinyattn.report import Column, table
from tinyattn.rng import DropoutRNG
from tinyattn.theory.finding import shown

if TYPE_CHECKING:
    from tinyattn.exercise.grade import Grade, Graded

LAWS = "laws"
"""The name of the row for all laws of attention."""
WIDTH = 100
"""The most characters of a line."""


def as_text(grade: Grade) -> str:
    """A table of the checks, then the smallest counterexample of each that does not hold."""
    own = [result for result in grade.results if not result.page]
    rows = [{"check": r.name, "state": r.state, "says": r.says} for r in own]
    if laws := [result.state for result in grade.results if result.page]:
        counts = ", ".join(f"{laws.count(s)} {s}" for s in dict.fromkeys(laws))
        rows.append({"check": LAWS, "state": counts, "says": "Laws of attention that name it"})
    columns = [Column("check", "{check}"), Column("state", "{state}"), Column("says", "{says}")]
    parts = ["\n".join(table(rows, columns)), *map(_broken, grade.broken)]
    where = f"tinyattn/{grade.exercise.file}"
    parts.append(f"{grade.exercise.name}: all checks hold; compare it with {where}" if grade.ok
                 else f"{grade.exercise.name}: {len(grade.broken)} broken")  # fmt: skip
    return "\n\n".join(parts)


def _broken(result: Graded) -> str:
    arguments = ", ".join(f"{name} = {_argument(x)}" for name, x in result.arguments.items())
    says = result.says if result.page else ""  # the table has those of the other checks
    facts = {"it says": says, "but with": arguments, "came out": result.text, "page": result.page}
    lines = [f"{result.name} is broken"]
    for name, text in facts.items():
        lines += textwrap.wrap(text, WIDTH, initial_indent=f"  {name:9} ",
                               subsequent_indent=12 * " ")  # fmt: skip
    return "\n".join(lines)


def as_dict(grade: Grade) -> dict[str, Any]:
    """The same as a dictionary for JSON; other programs use its keys."""
    return {
        "name": grade.exercise.name, "ok": grade.ok,
        "checks": [
            {"check": r.name, "statement": r.says, "state": r.state, "page": r.page,
             "arguments": {name: _argument(x) for name, x in r.arguments.items()},
             "found": r.text}
            for r in grade.results
        ],
    }  # fmt: skip


def _argument(value: Any) -> str:
    """An argument as text, its numbers to four digits."""
    if isinstance(value, DropoutRNG):
        return f"DropoutRNG({value.seed})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if value is None or isinstance(value, bool) or not hasattr(value, "dtype"):
        return str(value)
    return str(value.tolist()) if value.dtype == bool else shown(value)
