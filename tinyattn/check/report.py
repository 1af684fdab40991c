"""Wing, check: what the laws say about an attention, as text, JSON and an HTML page."""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING, Any

from tinyattn.theory.finding import shown

if TYPE_CHECKING:
    from tinyattn.check.conformance import Conformance
    from tinyattn.check.search import Checked

SHOWN, NAMED = 3, 8
"""How many broken laws the text shows in full, and how many more it names; they are usually broken
by the same mistake."""


def as_text(found: Conformance) -> str:
    """The broken laws with their counterexamples, then a line of counts."""
    parts = [_broken(found, result) for result in found.broken[:SHOWN]]
    if others := [result.law.name for result in found.broken[SHOWN:]]:
        more = f", and {len(others) - NAMED} more" if len(others) > NAMED else ""
        also = f"also broken: {', '.join(others[:NAMED])}{more}"
        parts.append("\n".join(textwrap.wrap(also, 100)))
    left = sorted({why for r in found.results if r.why for why in r.why.split(", ")})
    counts = ", ".join(f"{n} {state}" for state, n in found.counts().items())
    parts.append(f"{found.name}: {counts}" + (f" ({', '.join(left)})" if left else ""))
    return "\n\n".join(parts)


def _broken(found: Conformance, result: Checked) -> str:
    example = result.counterexample
    assert example is not None
    facts = {
        "it says": result.law.says,
        "but with": ", ".join(f"{n} = {shown(x)}" for n, x in example.arguments.items()),
        "came out": example.text,
        "page": f"derivations/{result.law.page}.md",
    }
    lines = [f"{result.law.name} is broken"]
    for name, text in facts.items():
        lines += textwrap.wrap(text, 100, initial_indent=f"  {name:9} ",
                               subsequent_indent=12 * " ") if text else []  # fmt: skip
    code = example.code(found.name, found.module)
    return "\n".join([*lines, *(f"    {line}" for line in code.splitlines())])


def as_dict(found: Conformance) -> dict[str, Any]:
    """The same as a dictionary for JSON; other programs use its keys."""
    return {
        "name": found.name, "ok": found.ok, "counts": found.counts(),
        "laws": [
            {
                "law": r.law.name, "statement": r.law.says, "page": r.law.page, "state": r.state,
                "needs": r.why, "seconds": round(r.seconds, 3),
                "arguments": _plain(r.counterexample.arguments) if r.counterexample else {},
                "found": r.counterexample.text if r.counterexample else "",
                "code": r.counterexample.code(found.name, found.module) if r.counterexample else "",
            }
            for r in found.results
        ],
    }  # fmt: skip


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them: NaN and infinity as text."""
    return {
        n: x if isinstance(x, str | int | bool | tuple) else shown(x) for n, x in arguments.items()
    }


STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem;
         border-bottom: 1px solid #ddd }
pre { white-space: pre-wrap; font-size: .85em }
.broken { background: #fde0dd } .left { color: #666 }
"""


def as_html(found: Conformance) -> str:
    """A page with a row for each law."""
    rows = []
    for r in found.results:
        example = r.counterexample
        detail = "" if example is None else (
            f"{html.escape(example.text)}<pre>"
            f"{html.escape(example.code(found.name, found.module))}</pre>"
        )  # fmt: skip
        kind = r.state.split()[0]
        cells = (
            html.escape(r.law.name),
            html.escape(r.law.says),
            r.state,
            detail or html.escape(r.why),
        )
        rows.append(f'<tr class="{kind}">' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    name = html.escape(found.name)
    heads = "".join(
        f"<th>{h}</th>" for h in ("law", "it says", "state", "counterexample, or needs")
    )
    return "\n".join([
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name}: laws of attention</title><style>{STYLE}</style></head><body>",
        f"<h1>{name}</h1>",
        f"<p>{', '.join(f'{n} {state}' for state, n in found.counts().items())}</p>",
        f"<table><thead><tr>{heads}</tr></thead><tbody>", *rows, "</tbody></table>",
        "</body></html>", "",
    ])  # fmt: skip
