"""Chapter 11, continued: the claims and their errata, as text and as a page.

Everything here is printed from results: what is said of a claim is what its checks have found. The
page needs nothing but itself, and can be sent to whoever wrote the sheet. Next: the progress bar.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tinyattn.theory import Result, Verdict, errata

WIDTH = 100
"""Columns of the text."""

LEGEND = (
    "TRUE: as it stands. TRUE WITH CONDITIONS: it fails on the counterexample, and holds where the "
    "conditions are met. FALSE: wrong. TYPO: a slip of the pen, where it is plain what is meant. "
    "NOT CHECKABLE: an opinion, or more than a check can tell. The sheets are not part of the "
    "package: claims are told in our words, and lines are those of the sheets."
)
"""What the words mean."""


def as_text(results: Sequence[Result]) -> str:
    """All rows, then the errata."""
    rows = [(r.claim.id, str(r.claim.verdict), _state(r)) for r in results]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row, result in zip(rows, results, strict=True):
        lead = "".join(cell.ljust(n + 2) for cell, n in zip(row, wide, strict=True))
        lines += _wrapped(result.claim.says, lead, len(lead))
    for heading, wrong in _parts(results).items():
        if wrong:
            lines += ["", f"{heading}, and where that is seen", ""]
            lines += [line for result in wrong for line in _erratum(result)]
    return "\n".join(
        [*lines, "", *_unexpected(results), *_wrapped(LEGEND, "", 0), "", summary(results)]
    )


def as_details(result: Result) -> str:
    """One claim, with all that its checks found."""
    claim = result.claim
    facts = {
        "claim": claim.says,
        "stands in": where(result),
        "verdict": str(claim.verdict),
        "counterexample": result.counterexample,
        "what is true" if claim.corrected else "remark": claim.truth,
        "found": result.found,
        "under test": ", ".join(map(name_of, claim.under_test)),
        "as expected": f"NO: {result.unexpected}" if result.unexpected else "yes",
    }
    lines = [claim.id]
    for name, text in facts.items():
        if text:
            lines += _wrapped(text, f"  {name:15} ", 18)
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    """How many of which verdict, and whether all came out as expected."""
    counts = Counter(result.claim.verdict for result in results)
    wrong = sum(not result.ok for result in results)
    verdicts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    of_sheets = sum(result.claim.sheet.isdecimal() for result in results)
    claims = f"{len(results)} claim{'s' * (len(results) != 1)}, {of_sheets} of the sheets"
    return f"{claims}: {verdicts}; errata: {len(errata(results))}; unexpected: {wrong}"


def as_dict(results: Sequence[Result]) -> dict[str, Any]:
    """The same under the names that other programs rely on."""
    return {
        "rows": [
            {
                "id": r.claim.id, "sheet": r.claim.sheet, "lines": r.claim.lines,
                "statement": r.claim.says, "truth": r.claim.truth,
                "verdict": str(r.claim.verdict), "ok": r.ok, "unexpected": r.unexpected,
                "counterexample": r.counterexample, "found": r.found,
                "under_test": [name_of(function) for function in r.claim.under_test],
            }
            for r in results
        ],
        "errata": [
            {
                "id": r.claim.id, "claim": r.claim.says, "verdict": str(r.claim.verdict),
                "counterexample": r.counterexample, "truth": r.claim.truth, "where": where(r),
            }
            for r in errata(results)
        ],
        "unexpected": sum(not r.ok for r in results),
    }  # fmt: skip


def where(result: Result) -> str:
    """The sheet and its lines."""
    claim = result.claim
    if not claim.lines:
        return ""
    return f"sheet {claim.sheet}, line{'s' * (not claim.lines.isdecimal())} {claim.lines}"


def name_of(function: Callable[..., Any]) -> str:
    """tinyattn.theory.weights.lead_needed"""
    return f"{function.__module__}.{function.__qualname__}"


def _parts(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The errata: what is wrong, and what is right under conditions only."""
    wrong = errata(results)
    return {
        "errata: wrong as they stand":
            [r for r in wrong if r.claim.verdict != Verdict.CONDITIONAL],
        "errata: true with conditions only":
            [r for r in wrong if r.claim.verdict == Verdict.CONDITIONAL],
    }  # fmt: skip


def _state(result: Result) -> str:
    """Whether it came out as expected; nothing if it cannot be checked."""
    if not result.ok:
        return "UNEXPECTED"
    return "-" if result.claim.verdict == Verdict.OPEN else "as expected"


def _wrapped(text: str, lead: str, margin: int) -> list[str]:
    """Lines of a paragraph that begins with `lead`; formulas are not broken at a minus."""
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * margin,
                         break_on_hyphens=False)  # fmt: skip


def _erratum(result: Result) -> list[str]:
    claim = result.claim
    head = f"{claim.id:14}{claim.verdict}, {where(result)}"
    parts = [(14 * " ", claim.says), (9 * " " + "but  ", result.counterexample),
             (7 * " " + "right  ", claim.truth)]  # fmt: skip
    return [head, *(line for lead, text in parts for line in _wrapped(text, lead, 14))]


def _unexpected(results: Sequence[Result]) -> list[str]:
    return [line for r in results if not r.ok for line in [as_details(r), ""]]


# A page --------------------------------------------------------------------------------------

COLOURS = {
    Verdict.TRUE: "#1b7837", Verdict.CONDITIONAL: "#2166ac", Verdict.FALSE: "#b2182b",
    Verdict.TYPO: "#8c510a", Verdict.OPEN: "#666666",
}  # fmt: skip

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
       color: #222; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem;
         border-bottom: 1px solid #ddd }
thead th { position: sticky; top: 0; background: #fff; border-bottom: 2px solid #222 }
.id { white-space: nowrap; font-variant-numeric: tabular-nums }
.verdict { font-weight: 600 }
.unexpected { background: #fde0dd }
.found { color: #555; font-size: .9em }
"""


def as_html(results: Sequence[Result]) -> str:
    """A page on its own: the errata, then all claims."""
    heads = ["claim", "verdict", "it says", "counterexample", "what is true", "where"]
    rows = [
        [_cell(r.claim.id, "id"), _verdict(r), _cell(r.claim.says), _cell(r.claim.truth),
         _cell(r.found, "found") if r.ok else _cell(as_details(r), "unexpected")]
        for r in results
    ]  # fmt: skip
    return "\n".join([
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Claims and errata</title><style>{STYLE}</style></head><body>",
        "<h1>Claims about attention, checked</h1>", f"<p>{html.escape(summary(results))}</p>",
        f"<p>{html.escape(LEGEND)}</p>",
        *(part for heading, wrong in _parts(results).items() if wrong
          for part in (f"<h2>{heading.capitalize()}</h2>", _table(heads, _errata_rows(wrong)))),
        "<h2>All claims</h2>",
        _table(["claim", "verdict", "it says", "what is true", "found"], rows),
        "</body></html>", "",
    ])  # fmt: skip


def _errata_rows(wrong: Sequence[Result]) -> list[list[str]]:
    return [
        [_cell(r.claim.id, "id"), _verdict(r), _cell(r.claim.says), _cell(r.counterexample),
         _cell(r.claim.truth), _cell(where(r))]
        for r in wrong
    ]  # fmt: skip


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _cell(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<td{attribute}>{html.escape(text)}</td>"


def _verdict(result: Result) -> str:
    verdict = result.claim.verdict
    return f'<td class="verdict" style="color: {COLOURS[verdict]}">{verdict}</td>'
