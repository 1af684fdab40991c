"""Python text as HTML: coloured by pygments, with links on its names."""

from __future__ import annotations

import html
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache

from names import Target, module
from pygments.lexers import PythonConsoleLexer, PythonLexer
from pygments.token import STANDARD_TYPES
from uses import uses

Link = Callable[[Target], str | None]
"""The address of a target, seen from the page; None if the site has no place for it."""


def escaped(text: str) -> str:
    """Text for HTML inside Markdown: no character of it can be taken for markup of either."""
    return html.escape(text).replace("`", "&#96;").replace("$", "&#36;").replace("\\", "&#92;")


def _kind(token: object) -> str:
    """The CSS class of a token."""
    while token not in STANDARD_TYPES:
        token = getattr(token, "parent", None)
    return str(STANDARD_TYPES[token])


def _span(kind: str, text: str) -> str:
    return (
        f'<span class="{kind}">{escaped(text)}</span>' if kind and text.strip() else escaped(text)
    )


@cache
def _tokens(file: str) -> list[tuple[int, str, str]]:
    found = PythonLexer(stripnl=False).get_tokens_unprocessed(module(file).text)
    return [(start, _kind(token), text) for start, token, text in found]


@cache
def _targets(file: str) -> dict[int, tuple[int, Target]]:
    return {use.start: (use.stop, use.target) for use in uses(module(file))}


def piece(file: str, start: int, stop: int, link: Link, anchors: dict[int, list[str]]) -> str:
    """A piece of a file as HTML.

    Args:
        start, stop: the offsets of its first character and of the one after its last.
        link: gives the address of a name.
        anchors: the names that links lead to, by the offset of what they mean.
    """
    return "".join(_piece(file, start, stop, link, anchors))


def _piece(
    file: str, start: int, stop: int, link: Link, anchors: dict[int, list[str]]
) -> Iterator[str]:
    targets, tokens = _targets(file), _tokens(file)
    until, closing = 0, ""
    first, last = (bisect_left(tokens, (offset,)) for offset in (start, stop))
    for at, kind, text in tokens[first:last]:
        for name in anchors.get(at, ()):
            yield f'<span id="{name}"></span>'
        if closing and at >= until:
            yield closing
            closing = ""
        if at in targets and not closing:
            until, target = targets[at]
            address = link(target)
            if address:
                yield f'<a href="{address}">'
                closing = "</a>"
        yield _span(kind, text)
    yield closing


def plain(text: str) -> str:
    """A program, or a part of one, as HTML without links."""
    return "".join(
        _span(_kind(t), text) for _, t, text in PythonLexer().get_tokens_unprocessed(text)
    )


def console(text: str) -> str:
    """Input and output of the Python prompt as HTML."""
    found = PythonConsoleLexer().get_tokens_unprocessed(text)
    return "".join(_span(_kind(token), part) for _, token, part in found)
