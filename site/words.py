"""A docstring as HTML, in the form that all docstrings of the package have.

It has paragraphs; lists; indented blocks, which keep their lines; examples of the Python prompt;
and fields such as "Shapes:", whose text continues on indented lines. Text in backticks is code,
and names and files in it become links.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator

from highlight import console, escaped

FIELDS = ("Forward", "Backward", "Shapes", "Units", "Args", "Attributes", "Returns", "Yields",
          "Raises", "Source", "Differs", "Decorator")  # fmt: skip
Link = Callable[[str], str | None]
"""The address of a name or of a file that a docstring mentions, or None."""

_FIELD = re.compile(rf"({'|'.join(FIELDS)}):(?:\s+|$)")
_INNER = re.compile(rf"(?<=[.;]) (?=(?:{'|'.join(FIELDS)}): )")
_ITEM = re.compile(r"([-*]|\d+\.) ")
_ARGUMENT = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
_INLINE = re.compile(
    r"`([^`\n]+)`|(?<![\w./])((?:\w+/)*\w+\.(?:py|md))\b|(?<![\w*])\*(\w[\w -]*)\*(?!\w)"
)


def words(docstring: str, link: Link) -> str:
    """The whole docstring."""
    return "\n".join(_blocks(docstring.strip("\n").splitlines(), link))


def first_sentence(docstring: str) -> str:
    """Its first sentence, as plain text on one line."""
    paragraph = " ".join(docstring.strip().partition("\n\n")[0].split())
    found = re.match(r".*?\.(?= [A-Z]|$)", paragraph)
    return found[0] if found else paragraph


def inline(text: str, link: Link) -> str:
    """A piece of running text; line ends in it are spaces."""
    parts, at = [], 0
    text = " ".join(text.split())
    for found in _INLINE.finditer(text):
        code, file, emphasis = found.groups()
        parts.append(escaped(text[at : found.start()]))
        at = found.end()
        if emphasis:
            parts.append(f"<em>{escaped(emphasis)}</em>")
            continue
        address = link(code or file)
        inner = f"<code>{escaped(code)}</code>" if code else escaped(file)
        parts.append(f'<a href="{html.escape(address)}">{inner}</a>' if address else inner)
    return "".join([*parts, escaped(text[at:])])


def _blocks(lines: list[str], link: Link) -> Iterator[str]:
    """Paragraphs and what else there is, one after another."""
    while lines:
        first = lines[0]
        if not first.strip():
            lines = lines[1:]
            continue
        if first.startswith("    "):
            taken = _take(lines, lambda line: line[:4] == "    ", blank=True)
            yield _kept(lines[:taken])
        elif first.startswith(">>> "):
            taken = _take(lines, lambda line: True)
            yield _kept(lines[:taken])
        elif _FIELD.match(first):
            taken = _take(lines, lambda line: line[:1] == " " or bool(_FIELD.match(line)))
            yield _fields(lines[:taken], link)
        elif _ITEM.match(first):
            taken = _take(lines, lambda line: line[:1] == " " or bool(_ITEM.match(line)))
            yield _list(lines[:taken], link)
        else:
            taken = _take(lines, lambda line: line[:1] != " " and not _FIELD.match(line))
            yield from _paragraph(" ".join(lines[:taken]), link)
        lines = lines[taken:]


def _take(lines: list[str], belongs: Callable[[str], bool], *, blank: bool = False) -> int:
    """How many lines from the first on belong together, with blank lines between them or not."""
    count = 1
    for number, line in enumerate(lines[1:], start=2):
        if line.strip() and belongs(line):
            count = number
        elif line.strip() or not blank:
            break
    return count


def _paragraph(text: str, link: Link) -> Iterator[str]:
    """A paragraph; a field may follow its last sentence on the same line."""
    first, *fields = _INNER.split(text)
    yield f"<p>{inline(first, link)}</p>"
    if fields:
        yield _fields(fields, link)


def _kept(lines: list[str]) -> str:
    """Lines that stay as they are."""
    text = textwrap.dedent("\n".join(lines))
    body = console(text + "\n") if text.startswith(">>>") else escaped(text)
    return f'<div class="highlight"><pre>{body}</pre></div>'


def _list(lines: list[str], link: Link) -> str:
    kind = "ol" if lines[0][0].isdigit() else "ul"
    items = [
        f"<li>{inline(_ITEM.sub('', item, count=1), link)}</li>" for item in _joined(lines, _ITEM)
    ]
    return f"<{kind}>{''.join(items)}</{kind}>"


def _joined(lines: list[str], start: re.Pattern[str]) -> list[str]:
    """Each line that begins a part, with the lines that continue it."""
    parts: list[str] = []
    for line in lines:
        if start.match(line) or not parts:
            parts.append(line)
        else:
            parts[-1] += "\n" + line
    return parts


def _fields(lines: list[str], link: Link) -> str:
    """The fields of a docstring as a list of definitions."""
    rows = []
    for field in _joined(lines, _FIELD):
        for part in _INNER.split(field):
            name, _, text = part.partition(":")
            rows.append(f"<dt>{name}</dt> <dd>{_field(name, text, link)}</dd>")
    return f'<dl class="fields">{"".join(rows)}</dl>'


def _field(name: str, text: str, link: Link) -> str:
    """The text of one field; of Args, one line for each argument."""
    if name not in ("Args", "Attributes"):
        return inline(text, link)
    arguments = _joined(textwrap.dedent(text.strip("\n")).strip().splitlines(), _ARGUMENT)
    rows = []
    for argument in arguments:
        found = _ARGUMENT.match(argument)
        before = f"<code>{escaped(found[1])}</code>: " if found else ""
        rows.append(f"<div>{before}{inline(argument[found.end() if found else 0 :], link)}</div>")
    return "".join(rows)
