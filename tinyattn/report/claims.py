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

from tinyattn.theory import Claim, Remark, Result, Verdict, errata
from tinyattn.theory.claim import LEGEND

WIDTH = 100
"""Columns of the text."""

HOW_TO_READ = [
    "A verdict is the first that fits:",
    *(f"{verdict}: {meaning}." for verdict, meaning in LEGEND.items()),
    "The sheets are not part of the package: claims stand in our words, and lines are those of "
    "the sheets. * marks words of the assignment, which a sheet only prints. As expected: the "
    "checks bear the verdict out; -: there is nothing to check.",
]
"""What the words mean."""


REMARKS_ARE = "remarks: no claims about attention, checked by arithmetic"


def as_text(results: Sequence[Result], remarks: Sequence[Remark]) -> str:
    """All claims, then the errata, then the remarks."""
    lines = _table_of([(r.claim, _state(r)) for r in results])
    for heading, wrong in _parts(results).items():
        if wrong:
            lines += ["", f"{heading}, and where that is seen", ""]
            lines += [line for result in wrong for line in _erratum(result)]
    if remarks:
        lines += ["", REMARKS_ARE, ""]
        lines += _table_of([(r, _arithmetic(r)) for r in remarks])
    lines += ["", *_unexpected(results)]
    for text in HOW_TO_READ:
        lines += _wrapped(text, "", 2)
    return "\n".join([*lines, "", summary(results, remarks)])


def as_details(result: Result) -> str:
    """One claim, with all that its checks found."""
    claim = result.claim
    return _details(claim, {
        "counterexample": result.counterexample,
        "what is true" if claim.corrected else "remark": claim.truth,
        "found": result.found,
        "under test": ", ".join(map(name_of, claim.under_test)),
        "as expected": f"NO: {result.unexpected}" if result.unexpected else "yes" * _checked(claim),
    })  # fmt: skip


def remark_as_details(remark: Remark) -> str:
    """One remark, with what its arithmetic found."""
    return _details(remark, {
        "what is true": remark.truth, "found": remark.found.text,
        "as expected": "yes" if remark.found.holds else "NO",
    })  # fmt: skip


def _details(said: Claim | Remark, facts: dict[str, str]) -> str:
    """What is said, where, the verdict and more facts; those that are empty are left out."""
    head = {"claim": said.says, "stands in": where(said), "verdict": str(said.verdict)}
    facts = head | facts
    lines = [said.id]
    for name, text in facts.items():
        if text:
            lines += _wrapped(text, f"  {name:15} ", 18)
    return "\n".join(lines)


def summary(results: Sequence[Result], remarks: Sequence[Remark]) -> str:
    """How many of which verdict, in lines; the last says whether all came out as expected."""
    of_sheets = [result.claim for result in results if result.claim.sheet.isdecimal()]
    others = [result.claim for result in results if not result.claim.sheet.isdecimal()]
    counts = [
        _counted("claim", of_sheets, " of the sheets"),
        _counted("other claim", others),
        _counted("remark", remarks),
        f"unexpected: {unexpected(results, remarks)}",
    ]
    return "\n".join(filter(None, counts))


def unexpected(results: Sequence[Result], remarks: Sequence[Remark]) -> int:
    """How many do not come out as expected."""
    return sum(not r.ok for r in results) + sum(not r.found.holds for r in remarks)


def _counted(name: str, said: Sequence[Claim | Remark], more: str = "") -> str:
    """How many there are, and of which verdict; nothing of none."""
    counts = Counter(one.verdict for one in said)
    verdicts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    return f"{len(said)} {name}{'s' * (len(said) != 1)}{more}: {verdicts}" if said else ""


def as_dict(results: Sequence[Result], remarks: Sequence[Remark]) -> dict[str, Any]:
    """The same under the names that other programs rely on."""
    return {
        "rows": [
            {
                "id": r.claim.id, "sheet": r.claim.sheet, "lines": r.claim.lines,
                "statement": r.claim.says, "truth": r.claim.truth,
                "verdict": str(r.claim.verdict), "ok": r.ok, "unexpected": r.unexpected,
                "counterexample": r.counterexample, "found": r.found,
                "under_test": [name_of(function) for function in r.claim.under_test],
                "of_question": r.claim.of_question,
            }
            for r in results
        ],
        "errata": [
            {
                "id": r.claim.id, "claim": r.claim.says, "verdict": str(r.claim.verdict),
                "counterexample": r.counterexample, "truth": r.claim.truth, "where": where(r.claim),
            }
            for r in errata(results)
        ],
        "remarks": [
            {
                "id": r.id, "sheet": r.sheet, "lines": r.lines, "statement": r.says,
                "truth": r.truth, "verdict": str(r.verdict), "ok": r.found.holds,
                "found": r.found.text, "of_question": r.of_question,
            }
            for r in remarks
        ],
        "unexpected": unexpected(results, remarks),
    }  # fmt: skip


def where(said: Claim | Remark) -> str:
    """The sheet and its lines, and whether the words are the assignment's."""
    if not said.lines:
        return ""
    words = " (words of the assignment)" * said.of_question
    return f"sheet {said.sheet}, line{'s' * (not said.lines.isdecimal())} {said.lines}{words}"


def name_of(function: Callable[..., Any]) -> str:
    """tinyattn.theory.weights.lead_needed"""
    return f"{function.__module__}.{function.__qualname__}"


def _parts(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The errata by verdict: what is wrong, slips, and what is true under conditions only."""
    wrong, kinds = errata(results), (Verdict.FALSE, Verdict.TYPO, Verdict.CONDITIONAL)
    found = {verdict: [r for r in wrong if r.claim.verdict == verdict] for verdict in kinds}
    return {f"errata, {len(found[v])} {v}": found[v] for v in kinds}


def _table_of(said: Sequence[tuple[Claim | Remark, str]]) -> list[str]:
    """A line for each: id, verdict, how it came out, and what it says."""
    rows = [(one.id + "*" * one.of_question, str(one.verdict), state) for one, state in said]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row, (one, _) in zip(rows, said, strict=True):
        lead = "".join(cell.ljust(n + 2) for cell, n in zip(row, wide, strict=True))
        lines += _wrapped(one.says, lead, len(lead))
    return lines


def _arithmetic(remark: Remark) -> str:
    """Whether its arithmetic comes out as expected."""
    return "as expected" if remark.found.holds else "UNEXPECTED"


def _state(result: Result) -> str:
    """Whether it came out as expected; a dash if nothing was checked."""
    if not result.ok:
        return "UNEXPECTED"
    return "as expected" if _checked(result.claim) else "-"


def _checked(claim: Claim) -> bool:
    """Whether there was something to check: of opinions, there rarely is."""
    return claim.corrected is not None


def _wrapped(text: str, lead: str, margin: int) -> list[str]:
    """Lines of a paragraph that begins with `lead`; formulas are not broken at a minus."""
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * margin,
                         break_on_hyphens=False)  # fmt: skip


def _erratum(result: Result) -> list[str]:
    claim = result.claim
    head = f"{claim.id:14}{claim.verdict}, {where(claim)}"
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


def as_html(results: Sequence[Result], remarks: Sequence[Remark]) -> str:
    """A page on its own: the errata, then all claims, then the remarks."""
    heads = ["claim", "verdict", "it says", "counterexample", "what is true", "where"]
    rows = [
        [_id(r.claim), _verdict(r.claim), _cell(r.claim.says), _cell(r.claim.truth),
         _cell(r.found, "found") if r.ok else _cell(as_details(r), "unexpected")]
        for r in results
    ]  # fmt: skip
    return "\n".join([
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Claims and errata</title><style>{STYLE}</style></head><body>",
        "<h1>Claims about attention, checked</h1>",
        f"<p>{html.escape(summary(results, remarks)).replace(chr(10), '<br>')}</p>",
        *(f"<p>{html.escape(text)}</p>" for text in HOW_TO_READ),
        *(part for heading, wrong in _parts(results).items() if wrong
          for part in (f"<h2>{heading.capitalize()}</h2>", _table(heads, _errata_rows(wrong)))),
        "<h2>All claims</h2>",
        _table(["claim", "verdict", "it says", "what is true", "found"], rows),
        *([f"<h2>{REMARKS_ARE.capitalize()}</h2>",
           _table(["remark", "verdict", "it says", "what is true", "found"],
                  [_remark_row(remark) for remark in remarks])] if remarks else []),
        "</body></html>", "",
    ])  # fmt: skip


def _errata_rows(wrong: Sequence[Result]) -> list[list[str]]:
    return [
        [_id(r.claim), _verdict(r.claim), _cell(r.claim.says), _cell(r.counterexample),
         _cell(r.claim.truth), _cell(where(r.claim))]
        for r in wrong
    ]  # fmt: skip


def _remark_row(remark: Remark) -> list[str]:
    found = remark.found
    return [_id(remark), _verdict(remark), _cell(remark.says), _cell(remark.truth),
            _cell(found.text, "found" if found.holds else "unexpected")]  # fmt: skip


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _cell(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<td{attribute}>{html.escape(text)}</td>"


def _id(said: Claim | Remark) -> str:
    return _cell(said.id + "*" * said.of_question, "id")


def _verdict(said: Claim | Remark) -> str:
    colour = COLOURS[said.verdict]
    return f'<td class="verdict" style="color: {colour}">{said.verdict}</td>'
