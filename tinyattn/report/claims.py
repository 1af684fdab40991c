"""Wing, report: the claims and their errata, as text and as an HTML page.

All statements about a claim come from the results of its checks. The page is one file without
external resources, so it can be sent to the author of an answer sheet (a student's published
solutions of the assignment).
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tinyattn.report.text_table import Column, table
from tinyattn.theory import Claim, Law, Remark, Result, Verdict, errata
from tinyattn.theory.claim import LEGEND

WIDTH = 100
"""Columns of the text."""

HOW_TO_READ = [
    "A verdict is the first that fits:",
    *(f"{verdict}: {meaning}." for verdict, meaning in LEGEND.items()),
    "The answer sheets are not part of the package: claims are in our words, line numbers are "
    "those of the sheets. * marks words of the assignment, which a sheet only quotes. Confirmed: "
    "the checks confirm the verdict; -: there is nothing to check.",
]
"""Explanations below the text and on the page."""


REMARKS_ARE = "remarks: no claims about attention, checked by arithmetic"

COLUMNS = [
    Column("", lambda one: one["said"].id + "*" * one["said"].of_question),
    Column("", lambda one: str(one["said"].verdict)),
    Column("", "{state}"),
]
"""The columns before each claim or remark: id, verdict and state."""


def _outcome(one: Result | Remark) -> dict[str, Any]:
    """The outcome of a claim or remark; most opinions have nothing to check."""
    if isinstance(one, Remark):
        ok, checked, found, unexpected = one.found.holds, True, one.found.text, ""
    else:
        ok, found, unexpected = one.ok, one.found, one.unexpected
        checked = one.claim.check is not None
    state = "UNEXPECTED" if not ok else "confirmed" if checked else "-"
    said = one if isinstance(one, Remark) else one.claim
    return {"said": said, "ok": ok, "state": state, "found": found, "unexpected": unexpected}


def as_text(results: Sequence[Result], remarks: Sequence[Remark]) -> str:
    """All claims, then the errata, then the remarks."""
    lines = _list_of(results)
    for heading, wrong in _parts(results).items():
        lines += ["", f"{heading}, with counterexamples", ""]
        lines += [line for result in wrong for line in _erratum(result)]
    if remarks:
        lines += ["", REMARKS_ARE, "", *_list_of(remarks)]
    lines += ["", *(line for r in results if not r.ok for line in (as_details(r), ""))]
    for text in HOW_TO_READ:
        lines += _wrapped(text, "", 2)
    return "\n".join([*lines, "", summary(results, remarks)])


def as_details(one: Result | Remark) -> str:
    """One claim or remark with all results of its checks; empty fields are left out."""
    outcome = _outcome(one)
    said, found = outcome["said"], outcome["found"]
    facts = {"claim": said.says, "source": where(said), "verdict": str(said.verdict)}
    if isinstance(one, Result):
        facts["counterexample"] = one.counterexample
    facts["why" if outcome["state"] == "-" else "what is true"] = said.truth
    facts |= _law_of(said) | {"found": found, "under test": ", ".join(_under_test(said))}
    answer = {"confirmed": "yes", "-": "", "UNEXPECTED": f"NO: {outcome['unexpected']}"}
    facts["checks confirm"] = answer[outcome["state"]].removesuffix(": ")
    lines = [_wrapped(text, f"  {name:15} ", 18) for name, text in facts.items() if text]
    return "\n".join([said.id, *(line for part in lines for line in part)])


def summary(results: Sequence[Result], remarks: Sequence[Remark]) -> str:
    """Counts by verdict, one line each; the last line counts unexpected results."""
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
    """The number of unexpected results."""
    items: list[Result | Remark] = [*results, *remarks]
    return sum(not _outcome(item)["ok"] for item in items)


def _counted(name: str, said: Sequence[Claim | Remark], more: str = "") -> str:
    """The number of claims and of each verdict; empty for no claims."""
    counts = Counter(one.verdict for one in said)
    verdicts = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    return f"{len(said)} {name}{'s' * (len(said) != 1)}{more}: {verdicts}" if said else ""


def as_dict(results: Sequence[Result], remarks: Sequence[Remark]) -> dict[str, Any]:
    """The same as a dictionary for JSON; other programs use its keys."""
    return {
        "rows": [
            _facts(r) | {"unexpected": r.unexpected, "counterexample": r.counterexample,
                         "law": _law_of(r.claim).get("law", ""), "under_test": _under_test(r.claim)}
            for r in results
        ],
        "errata": [
            {
                "id": r.claim.id, "claim": r.claim.says, "verdict": str(r.claim.verdict),
                "counterexample": r.counterexample, "truth": r.claim.truth, "where": where(r.claim),
            }
            for r in errata(results)
        ],
        "remarks": [_facts(remark) for remark in remarks],
        "unexpected": unexpected(results, remarks),
    }  # fmt: skip


def _facts(one: Result | Remark) -> dict[str, Any]:
    outcome = _outcome(one)
    said = outcome["said"]
    return {
        "id": said.id, "sheet": said.sheet, "lines": said.lines, "statement": said.says,
        "truth": said.truth, "verdict": str(said.verdict), "ok": outcome["ok"],
        "found": outcome["found"], "of_question": said.of_question,
    }  # fmt: skip


def where(said: Claim | Remark) -> str:
    """The paper, or the answer sheet and its lines, and whether the words are the assignment's."""
    if not said.lines:
        return ""
    if not said.sheet.isdecimal():
        return said.lines
    words = " (words of the assignment)" * said.of_question
    return f"sheet {said.sheet}, line{'s' * (not said.lines.isdecimal())} {said.lines}{words}"


def _law_of(said: Claim | Remark) -> dict[str, str]:
    """The law that decides a claim, with its page, under the key `law`; {} if it is no law."""
    check = None if isinstance(said, Remark) else said.check
    return {"law": f"{check.name}, derivations/{check.page}.md"} if isinstance(check, Law) else {}


def _under_test(said: Claim | Remark) -> list[str]:
    """The functions that a claim's checks call, such as tinyattn.theory.weights.lead_needed."""
    functions = () if isinstance(said, Remark) or not said.check else said.check.under_test
    return [f"{function.__module__}.{function.__qualname__}" for function in functions]


def _parts(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The errata by verdict: false claims, typos, and claims that are true under conditions."""
    wrong, kinds = errata(results), (Verdict.FALSE, Verdict.TYPO, Verdict.CONDITIONAL)
    found = {verdict: [r for r in wrong if r.claim.verdict == verdict] for verdict in kinds}
    return {f"errata, {len(found[v])} {v}": found[v] for v in kinds if found[v]}


def _list_of(ones: Sequence[Result | Remark]) -> list[str]:
    """One line for each: id, verdict, state and statement."""
    outcomes = [_outcome(one) for one in ones]
    leads = table(outcomes, COLUMNS)
    margin = max(map(len, leads), default=0) + 2
    return [line for lead, one in zip(leads, outcomes, strict=True)
            for line in _wrapped(one["said"].says, lead.ljust(margin), margin)]  # fmt: skip


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
    """An HTML page: the errata, then all claims, then the remarks."""
    heads = ["claim", "verdict", "it says", "counterexample", "what is true", "where"]
    parts = {
        heading.capitalize(): _table(heads, [_errata_row(result) for result in wrong])
        for heading, wrong in _parts(results).items()
    }
    heads = ["verdict", "it says", "what is true", "found"]
    parts["All claims"] = _table(["claim", *heads], map(_row, results))
    if remarks:
        parts[REMARKS_ARE.capitalize()] = _table(["remark", *heads], map(_row, remarks))
    return "\n".join([
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Claims and errata</title><style>{STYLE}</style></head><body>",
        "<h1>Claims about attention, checked</h1>",
        f"<p>{html.escape(summary(results, remarks)).replace(chr(10), '<br>')}</p>",
        *(f"<p>{html.escape(text)}</p>" for text in HOW_TO_READ),
        *(text for heading, rows in parts.items() for text in (f"<h2>{heading}</h2>", rows)),
        "</body></html>", "",
    ])  # fmt: skip


def _errata_row(result: Result) -> list[str]:
    claim = result.claim
    texts = claim.says, result.counterexample, claim.truth, where(claim)
    return [*_name(claim), *map(_cell, texts)]


def _row(one: Result | Remark) -> list[str]:
    outcome = _outcome(one)
    said, kind = outcome["said"], "found" if outcome["ok"] else "unexpected"
    found = as_details(one) if outcome["unexpected"] else outcome["found"]
    return [*_name(said), _cell(said.says), _cell(said.truth), _cell(found, kind)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _cell(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<td{attribute}>{html.escape(text)}</td>"


def _name(said: Claim | Remark) -> list[str]:
    """The cells with the id and the verdict of a claim."""
    style = f'class="verdict" style="color: {COLOURS[said.verdict]}"'
    return [_cell(said.id + "*" * said.of_question, "id"), f"<td {style}>{said.verdict}</td>"]
