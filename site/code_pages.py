"""A page for each file of code: its words on the left, its code on the right."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from addresses import Addresses, address
from highlight import piece
from names import Definition, Module, assigned, module
from uses import line_starts
from words import words


@dataclass
class Row:
    """A docstring and the lines of code beside it.

    Attributes:
        name: what the docstring describes ("Tensor.backward"); "" for the file.
        words: the docstring.
        spans: the lines of code beside it, [start, stop), counted from 0.
    """

    name: str
    words: str
    spans: list[tuple[int, int]] = field(default_factory=list)


def rows(here: Module) -> list[Row]:
    """A file in pieces, in the order of its text.

    A definition with a docstring begins a row. So does a name with a text below it. All other
    lines, with comments and blank lines, continue the row before them.
    """
    body = here.tree.body
    found = [Row("", ast.get_docstring(here.tree) or "")]
    start = body[0].end_lineno or 0 if body and _is_text(body[0]) else 0
    end = _rows(body, "", start, found)
    found[-1].spans.append((end, len(here.text.splitlines())))
    return found


def _rows(body: list[ast.stmt], prefix: str, start: int, found: list[Row]) -> int:
    """Add the rows of a body whose lines begin at `start`. Returns: the line after the last."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        end = node.end_lineno or start
        if isinstance(node, ast.FunctionDef) and _is_overload(node):
            continue  # its lines belong to the function that follows
        if _is_text(node):
            if node is not body[0]:
                start = end  # it has become the words of a name
            continue
        if isinstance(node, Definition) and ast.get_docstring(node):
            found.append(Row(prefix + node.name, ast.get_docstring(node) or ""))
            text = node.body[0]
            found[-1].spans.append((start, text.lineno - 1))
            start = text.end_lineno or start
            if isinstance(node, ast.ClassDef):
                start = _rows(node.body, f"{prefix}{node.name}.", start, found)
                continue
        elif after is not None and _is_text(after) and assigned(node):
            found.append(Row(prefix + assigned(node)[0], _text(after)))
        found[-1].spans.append((start, end))
        start = end
    return start


def _is_overload(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(
        node.value.value, str
    )  # fmt: skip


def _text(node: ast.stmt) -> str:
    """The text of a statement that is only a text."""
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return inspect.cleandoc(str(node.value.value))


def page(file: str) -> str:
    """The staged page of a file, with its anchors.

    Its code comes when the page is built: Markdown has no part in it, and would take a second for
    each 20 files.
    """
    title = file.removeprefix("tinyattn/")
    head = f"---\ntitle: {title}\nhide: [navigation, toc]\nsearch: {{exclude: true}}\n---\n\n"
    return f'{head}<h1 class="file">{title}</h1>\n\n{_place(file)}\n'


def _place(file: str) -> str:
    """What stands in a page until it is built: the anchors, so that links to them are known."""
    anchors = "".join(f'<span id="{name}"></span>' for name in module(file).defined)
    return f'<div class="code-page">{anchors}</div>'


def fill(site: Path, addresses: Addresses) -> None:
    """Put the code into all pages of a built site.

    Raises: RuntimeError for a page in which the builder has changed its place.
    """
    for file, staged in addresses.staged.items():
        if file.endswith(".py"):
            built = site / address(staged)
            text = built.read_text("utf-8")
            if _place(file) not in text:
                raise RuntimeError(f"{built}: no place for the code of {file}")
            built.write_text(text.replace(_place(file), body(file, addresses), 1), "utf-8")


def body(file: str, addresses: Addresses) -> str:
    """The rows of a file as HTML."""
    here = module(file)
    pieces = rows(here)
    anchors = _anchors(here, {row.name for row in pieces})
    shown = "\n".join(_html(row, here, addresses, anchors) for row in pieces)
    return f'<div class="code-page">\n{shown}\n</div>'


def _html(row: Row, here: Module, addresses: Addresses, anchors: dict[int, list[str]]) -> str:
    """One row. Its heading is where links to the name lead."""
    link = addresses.seen_from(here.file)
    starts = line_starts(here.text)
    spans = list(_without_blank_ends(row.spans, here.text.splitlines()))
    code = "".join(piece(here.file, starts[a], starts[b], link.to, anchors) for a, b in spans)
    heading = f'<h2 id="{row.name}">{row.name.rpartition(".")[2]}</h2>' if row.name else ""
    text = words(row.words, link.mentioned)
    beside = f'<div class="highlight"><pre>{code}</pre></div>' if code else ""
    return f'<section><div class="words">{heading}{text}</div>{beside}</section>'


def _without_blank_ends(
    spans: list[tuple[int, int]], lines: list[str]
) -> Iterator[tuple[int, int]]:
    """The spans of a row, but for blank lines before the first line and after the last."""
    numbers = [n for a, b in spans for n in range(a, b)]
    full = [n for n in numbers if lines[n].strip()]
    for a, b in spans if full else ():
        a, b = max(a, full[0]), min(b, full[-1] + 1)
        if a < b:
            yield a, b


def _anchors(here: Module, documented: set[str]) -> dict[int, list[str]]:
    """The names that links lead to and that have no row, by the offset of their definition."""
    starts = line_starts(here.text)
    lines = here.text.splitlines()
    found: dict[int, list[str]] = {}
    for name, node in here.defined.items():
        if name not in documented:
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
            found.setdefault(starts[node.lineno - 1] + len(before), []).append(name)
    return found
